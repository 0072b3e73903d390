"""Forks: an edit and no edit, trained on the same batches for equal FLOPs, before one of them is kept."""
