"""Tasks with an image and a text in each sample."""
