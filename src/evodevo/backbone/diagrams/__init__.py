"""Drawings of backbones: SVG, no torch."""
