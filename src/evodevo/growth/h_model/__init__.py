"""Growth of H-Models: their hidden layers are a pool of modules."""
