"""Tasks of reasoning: pointers and proofs."""
