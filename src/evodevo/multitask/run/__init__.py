"""A system as its users handle it: create, add, run, predict, export."""
