"""Objectives of recall: what an architecture remembers, found by a small training of its own."""
