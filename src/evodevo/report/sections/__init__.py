"""Sections of pages on runs."""
