"""Layers: operators with their settings and costs, by kind."""
