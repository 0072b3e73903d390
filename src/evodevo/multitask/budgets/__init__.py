"""Budgets of a run of agents in steps or seconds: shared over agents and cycles, and recorded before each cycle."""
