"""Training: a network becomes a trained network. ``settings`` loads no torch; the other files do."""
