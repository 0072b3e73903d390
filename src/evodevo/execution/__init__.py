"""Where evaluations run: in this process or in isolated processes. A job is a name and bytes; so is its answer."""
