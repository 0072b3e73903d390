"""Routes that are given instead of learned: a table from symbols of the input to hidden layers, and its evolution."""
