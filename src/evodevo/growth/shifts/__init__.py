"""A shift of the training data: when it comes, and which network goes on from there."""
