"""Backbones in transformers: the model type ``evodevo``, and families of transformers that a backbone is exactly."""
