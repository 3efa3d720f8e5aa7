"""One model per user, per article or per group of users."""
