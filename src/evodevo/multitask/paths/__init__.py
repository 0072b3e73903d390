"""Kinds of paths: what a child of an agent is built of."""
