"""``python -m evodevo.cli``: the command line where the console script is not on the path."""

from evodevo.cli import main

main()
