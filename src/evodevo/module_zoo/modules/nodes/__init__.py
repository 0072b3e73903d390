"""The kinds of node of a module's graph, one file each with its modules in the ``_model`` file beside it."""
