"""Features that plain models read: numbers in columns, made from samples by what the training samples had."""
