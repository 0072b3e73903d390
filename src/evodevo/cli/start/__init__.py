"""Commands for a start: doctor, demo, recipes."""
