"""TO WRITE: what this folder holds."""
