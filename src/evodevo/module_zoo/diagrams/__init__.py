"""Drawings of zoos, modules and routing: SVG, no torch."""
