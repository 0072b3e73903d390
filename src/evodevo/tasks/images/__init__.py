"""Tasks over images."""
