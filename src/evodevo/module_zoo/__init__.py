"""Architect Thyself: a zoo of modules behind a graph attention router."""
