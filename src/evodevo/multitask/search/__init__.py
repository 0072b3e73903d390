"""The decisions of an agent: parents, mutations, scores, populations (munet)."""
