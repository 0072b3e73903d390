"""Edits around the modules: what is made of their outputs before the heads."""
