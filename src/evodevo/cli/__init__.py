"""The command line: one short file per command. Open ``application.py`` first."""

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script and of ``python -m evodevo.cli``; Ctrl-C is an interruption from its start."""
    import sys

    try:
        from evodevo.cli import application

        application.main()
    except KeyboardInterrupt:
        print("evodevo: interrupted.", file=sys.stderr)
        sys.exit(130)
