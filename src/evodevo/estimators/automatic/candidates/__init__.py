"""Candidates of ``evodevo.fit``, one file each: how a model is trained, what it predicts, and how it is kept."""
