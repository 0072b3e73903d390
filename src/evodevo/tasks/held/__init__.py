"""Splits that are held back from the training samples of a task, for decisions of a search."""
