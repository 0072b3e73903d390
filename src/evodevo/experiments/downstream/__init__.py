"""Evaluation of trained language models on texts and on questions, and its record in the store."""
