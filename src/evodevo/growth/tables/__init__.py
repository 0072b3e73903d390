"""What the tables of edits have in common."""
