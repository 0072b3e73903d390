"""TO WRITE."""
