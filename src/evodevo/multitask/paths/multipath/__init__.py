"""Paths that combine frozen paths with connectors and a router."""
