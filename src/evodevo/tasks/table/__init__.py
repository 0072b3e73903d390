"""The task ``table``: samples from the rows of a user's CSV, JSONL or parquet file."""
