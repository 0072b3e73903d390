"""Experiments on H-Models (Hospodarchuk; docs/spec/h_model.md#experiments), and the search over their structure."""
