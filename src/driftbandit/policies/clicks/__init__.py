"""Logistic regression for rewards of 0 and 1."""
