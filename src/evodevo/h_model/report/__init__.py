"""The page on the routing of an H-Model."""
