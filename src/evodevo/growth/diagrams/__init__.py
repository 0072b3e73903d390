"""Drawings of a growth as SVG; no torch."""
