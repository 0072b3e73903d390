"""The part of the store that holds multitask systems."""
