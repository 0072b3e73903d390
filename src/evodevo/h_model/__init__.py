"""H-Model: layers that decide, per sample and iteration, which other layers receive their output."""
