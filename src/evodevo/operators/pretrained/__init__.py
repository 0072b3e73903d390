"""Layers and embeddings taken from pretrained checkpoints."""
