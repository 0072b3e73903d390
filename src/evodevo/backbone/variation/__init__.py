"""Mutation and crossover of backbones on the resolved plan: what they act on are connections, not integers."""
