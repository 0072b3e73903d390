"""The report of a system: what its record holds, gathered, and its page."""
