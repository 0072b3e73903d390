"""Stores on a server, and what tests do to them."""
