"""The page: what each loop earned, what changed and when, drawn on the server and kept up to date by its events."""
