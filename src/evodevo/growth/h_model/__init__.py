"""H-Models whose hidden layers are a pool that grows."""
