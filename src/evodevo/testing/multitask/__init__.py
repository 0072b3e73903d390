"""Fixtures and conformance suites for multitask systems."""
