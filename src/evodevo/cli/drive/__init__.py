"""Commands that search, train and grow."""
