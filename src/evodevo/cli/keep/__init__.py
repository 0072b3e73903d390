"""Commands that replay runs and mend stores."""
