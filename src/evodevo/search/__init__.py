"""Search over architectures: spaces, problems, the study that drives an algorithm. Open ``study.py`` first."""
