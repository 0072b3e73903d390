"""Short trainings of several networks from one moment of a training, of which the best goes on."""
