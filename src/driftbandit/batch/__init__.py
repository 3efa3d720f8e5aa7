"""Many scopes at once."""
