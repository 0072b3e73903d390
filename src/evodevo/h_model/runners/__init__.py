"""Runners: execution of an iteration's layers, one by one or in groups."""
