"""Routers over modules, and their losses and births."""
