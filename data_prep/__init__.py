"""Data sets made ready for training: cleaned, split between parties, written as CSV files."""
