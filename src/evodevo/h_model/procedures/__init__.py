"""Trainings of H-Models beyond the plain one: extension, pretrained donors."""
