"""The graph of a whole system: layout, frame, outline, cycles."""
