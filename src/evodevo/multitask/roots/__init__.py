"""Roots that come with the package: trained weights, a card for each, and the command that trained them."""
