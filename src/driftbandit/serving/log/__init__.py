"""The log for other programs.

- `export`: the log as lines of JSON, Parquet, or the JSON of Vowpal Wabbit
- `rerun`: making every decision of an exported log again
- `places`: files and folders, here or in S3-compatible storage
- `archive`: old events that left the store
"""
