"""Recipes that compare several multitask systems or agents, run copy by copy."""
