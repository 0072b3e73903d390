"""How one child of an agent is trained: augmentation, optimizer, steps."""
