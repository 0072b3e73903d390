"""The command line: one short file per command. Open ``application.py`` first."""

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script; Ctrl-C while it imports is an interruption like any other."""
    import sys

    try:
        from evodevo.cli import application
    except KeyboardInterrupt:
        print("evodevo: interrupted.", file=sys.stderr)
        sys.exit(130)
    application.main()
