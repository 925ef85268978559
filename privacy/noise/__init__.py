"""Noise on an integer grid from a cryptographic stream."""
