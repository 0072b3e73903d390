"""Search with a model of the scores: which child is worth an evaluation is predicted before any is trained."""
