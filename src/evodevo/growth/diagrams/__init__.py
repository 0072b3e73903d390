"""Drawings of growth: SVG, no torch."""
