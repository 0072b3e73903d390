"""Baseline networks with which a zoo is compared."""
