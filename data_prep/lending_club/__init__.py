"""Lending Club's loans of 2007 to 2015: from the raw public file to tables for a federated credit-risk model."""
