"""Kinds of agents, one file each."""
