"""The scikit-learn classifier whose network grows during ``fit``."""
