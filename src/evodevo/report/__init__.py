"""The kit of reports: SVG charts, HTML sections; it knows no run and no slice."""
