"""Tasks with images as inputs."""
