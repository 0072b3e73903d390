"""Zoos that grow while they train: what modules are worth, who may go, what may happen, and what it was good for."""
