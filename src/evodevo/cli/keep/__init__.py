"""Commands that replay runs and repair stores."""
