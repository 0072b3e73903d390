"""How an agent chooses: parents, mutations, scores, populations (munet)."""
