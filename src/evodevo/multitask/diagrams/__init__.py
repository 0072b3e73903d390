"""Drawings of multitask systems: SVG, no torch."""
