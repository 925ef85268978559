"""Joins the records of two parties by id so that each gets additive shares, and neither learns which ids matched."""
