"""Recipes of networks that grow, and of ablations."""
