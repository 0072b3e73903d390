"""The carried stream: layers update a state that is carried from one to the next, and only addressed layers run."""
