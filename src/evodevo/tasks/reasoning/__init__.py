"""Generated tasks of multi-step reasoning: pointers, tables of many domains, and proofs over facts and rules."""
