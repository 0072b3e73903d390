"""What differs between databases: connecting, locks, errors, the schema as the database tells it; a file for each."""
