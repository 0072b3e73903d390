"""Search algorithms with the ask-and-tell interface of ``search/base.py``, one per file."""
