"""Encoders, alignment and fusion of modalities."""
