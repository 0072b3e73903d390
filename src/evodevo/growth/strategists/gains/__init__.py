"""Measured gains of edits, kept across runs: what forks measured, a model of it, and what that foresees."""
