"""Tasks over images with text."""
