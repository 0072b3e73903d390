"""Training of one network: loop, optimiser, checkpoints, validation. ``settings`` loads no torch; other files do."""
