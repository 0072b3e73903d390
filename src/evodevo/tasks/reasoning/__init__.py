"""Generated tasks of multi-step reasoning: pointers, tables of many domains, programs, proofs over facts and rules."""
