"""Generated sequences that contain their answers: recall from the context, apart from learned facts."""
