"""Tasks over rows of a table: the user's CSV, JSONL or parquet."""
