"""Commits and recovery: loops on a store, and the thread that runs them."""
