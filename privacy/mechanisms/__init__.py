"""Differentially private mechanisms: each knows its own sensitivity and emits the event that an accountant charges."""
