"""Where the log lives: SQLite or PostgreSQL, behind one protocol."""
