"""Tasks with texts as inputs, their tokenizers, and the cache of prepared data."""
