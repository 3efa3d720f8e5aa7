"""Did my world change, and what should I run? A log, looked at from all sides."""
