"""A component that somebody wrote by docs/adding-a-component.md alone, and its case; `test_stranger.py` plants faults in it."""
