"""Generated sequences whose answers stand earlier in them: how much a network remembers, apart from what it knows."""
