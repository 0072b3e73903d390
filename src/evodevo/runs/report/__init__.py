"""The report of an evolution."""
