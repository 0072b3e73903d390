"""Searches for a pool of modules: DARTS- and ENAS-like, random, best single."""
