"""Noise on an integer grid from a cryptographic stream; ``rng`` is one, None for the operating system's entropy."""
