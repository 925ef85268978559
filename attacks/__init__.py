"""Attacks on what the parties of a training receive: what an epsilon buys, measured; knows no FATE."""
