"""What happens to a growing network between two segments of its training, and what is kept of it."""
