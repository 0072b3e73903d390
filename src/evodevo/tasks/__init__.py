"""Tasks: data, splits and baselines, without torch. Rows of the table are imported on first use."""
