"""Source of what networks have in common: inputs, outputs, embeddings of iterations, routing."""
