"""Backbones that grow while they train: in depth, in width, by LIVs of other classes, in context."""
