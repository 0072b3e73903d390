"""Edits of a module at its place: it becomes larger, and answers as before at that moment."""
