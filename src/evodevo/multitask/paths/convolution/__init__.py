"""Paths over images: residual convolutions with group norm."""
