"""Benchmarks, in a home of their own as tests are."""

from tests.own_home import Guard

Guard().fail_at_exit()
