"""A fitted model as a folder that works without evodevo: one readable file of numpy beside its JSON and arrays."""
