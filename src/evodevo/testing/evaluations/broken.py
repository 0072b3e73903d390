"""A module that cannot be imported, for tests of a worker's message."""

raise ImportError("this module is broken on purpose")
