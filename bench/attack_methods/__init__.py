"""Attacks that the benchmarks measure on simulated runs; those that read a recorded job are in `fate_dp.attacks`."""
