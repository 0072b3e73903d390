"""Paths over images: vision transformers."""
