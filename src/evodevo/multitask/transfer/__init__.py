"""Linear probes: what the paths of others are worth to a new task, before anything is trained."""
