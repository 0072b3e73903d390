"""Training of growing networks: distillation, replay of samples, and optimiser state after edits."""
