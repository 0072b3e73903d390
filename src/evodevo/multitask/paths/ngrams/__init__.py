"""Paths over bags of hashed n-grams."""
