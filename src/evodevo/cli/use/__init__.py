"""Commands that use a trained network."""
