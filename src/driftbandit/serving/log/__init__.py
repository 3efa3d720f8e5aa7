"""The log for other programs.

- `export`: the log as lines of JSON, Parquet, or the JSON of Vowpal Wabbit
- `rerun`: making every decision of an exported log again
"""
