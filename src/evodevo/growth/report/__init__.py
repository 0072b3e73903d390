"""The report of a growing network."""
