"""A module that cannot be imported, to see what a worker says about it."""

raise ImportError("this module is broken on purpose")
