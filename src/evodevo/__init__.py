"""evodevo: neural networks that design themselves."""

__version__ = "0.1.0"
