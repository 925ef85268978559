"""Benchmarks, in a home of their own as tests are."""

from tests.own_home import guard

guard().fail_at_exit()
