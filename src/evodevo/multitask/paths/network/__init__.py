"""Paths that are imported networks."""
