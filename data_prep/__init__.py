"""Data sets made ready for training: cleaned, split between parties, written as CSV files."""

SYNTHETIC_PREFIX = "synthetic-"  # ids of rows that over-sampling made; here, so that components read it without sklearn
