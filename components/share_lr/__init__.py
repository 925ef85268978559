"""Logistic and linear regression where both parties hold only shares of all features and of the label."""
