"""Routers over the modules of a zoo: decisions, gates, losses, births, and their cost."""
