"""Kernels of other packages, used where they are installed, fit and agree with this library's own forms."""
