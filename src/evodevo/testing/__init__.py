"""Conformance suites to inherit, and problems with known answers; needs ``pip install 'evodevo[testing]'``."""
