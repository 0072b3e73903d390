"""Tasks: data, splits and metrics, without torch. Rows of the table are loaded when they are asked for."""
