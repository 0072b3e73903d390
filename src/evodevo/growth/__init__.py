"""Growth during training: modules are measured, pruned, born and rewarded while a network learns."""
