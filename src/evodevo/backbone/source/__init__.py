"""Backbones as one readable file of plain PyTorch: ``program.py`` writes it from pieces of text."""
