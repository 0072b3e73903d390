"""The networks that ``evodevo.fit`` tries: a race of plain networks, single modules and the whole zoo."""
