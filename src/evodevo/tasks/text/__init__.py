"""Tasks over text."""
