"""Births of modules in a zoo, and the bank of retired ones."""
