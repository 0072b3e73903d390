"""Recipes of multitask systems: one file each."""
