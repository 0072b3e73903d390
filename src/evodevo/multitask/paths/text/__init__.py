"""Paths over text."""
