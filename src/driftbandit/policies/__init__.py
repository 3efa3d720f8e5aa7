"""Policies, one algorithm a file."""
