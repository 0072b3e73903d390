"""Drawings of H-Models and of their routing: SVG, no torch."""
