"""Pretrained towers: files, digests, models."""
