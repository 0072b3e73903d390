"""Patterns that recur in the backbones of a search (STAR 5.5, B): sequences of classes, and what they share."""
