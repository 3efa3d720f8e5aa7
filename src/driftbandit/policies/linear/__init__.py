"""Ridge regression with optimism or sampling, for a world that does not change; and an oracle that knows the shifts."""
