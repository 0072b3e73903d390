"""Races of short trainings, the best of which goes on: plans, their budget, and the race itself."""
