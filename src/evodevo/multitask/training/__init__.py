"""The training of one child of an agent: augmentation, optimizer, steps."""
