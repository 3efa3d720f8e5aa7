"""Policies, one file per algorithm."""
