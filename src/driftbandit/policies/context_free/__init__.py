"""Policies that know arms by their ids alone."""
