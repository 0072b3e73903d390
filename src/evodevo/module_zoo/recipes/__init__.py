"""Recipes of zoos of modules: one file each."""
