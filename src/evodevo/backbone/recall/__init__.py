"""Objectives of recall: the accuracy of an architecture on recall tasks, after a small training of its own."""
