"""Generated tasks of multi-step reasoning: following pointers, and proofs over facts and rules."""
