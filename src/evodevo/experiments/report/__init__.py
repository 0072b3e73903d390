"""The report of an experiment: its data, gathered, and its page."""
