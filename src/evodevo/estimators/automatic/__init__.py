"""``evodevo.fit``: the best of plain models, networks and their ensemble for a user's rows, by validation."""
