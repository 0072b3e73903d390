"""The command line: one short file per command. Open ``application.py`` first."""

from evodevo.cli.application import main

__all__ = ["main"]
