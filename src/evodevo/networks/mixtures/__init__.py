"""Mixtures of experts: feed-forward networks of which a router chooses some for each token."""
