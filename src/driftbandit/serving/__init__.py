"""Policies behind HTTP: a durable, event-sourced decision service."""
