"""The log for others: export and replay."""
