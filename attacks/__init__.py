"""Attacks on what the parties of a recorded job received; knows no FATE."""
