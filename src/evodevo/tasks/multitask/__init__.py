"""Tasks of multitask systems."""
