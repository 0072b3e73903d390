"""Generated tasks of multi-step reasoning: following pointers, tables of many domains, and proofs over facts and rules."""
