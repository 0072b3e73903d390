"""The scikit-learn classifier that grows while it fits."""
