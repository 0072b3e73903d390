"""Rows of a table of any form, whose columns are told by their values."""
