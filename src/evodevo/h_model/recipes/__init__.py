"""Experiments on H-Models (Hospodarchuk; spec/routing.md 3.6), and the search over their structure."""
