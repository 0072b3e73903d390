"""Commands that show runs and their results."""
