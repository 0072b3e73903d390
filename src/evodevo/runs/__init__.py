"""Runs: their archive, recipes, how they are driven and resumed, how individuals are picked and used."""
