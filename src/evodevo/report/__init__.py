"""The kit of reports: SVG charts and HTML sections, independent of runs and slices."""
