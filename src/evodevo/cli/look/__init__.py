"""Commands that show runs and what came of them."""
