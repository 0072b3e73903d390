"""How an iteration's layers are run: one by one, or in groups."""
