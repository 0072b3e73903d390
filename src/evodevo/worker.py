"""The process that runs evaluations: ``python -m evodevo.worker``, started by ``execution/processes.py``.

    coordinator
    └─ guard             light; sees the coordinator's end; adopts, and in the end kills, everything below it
       └─ warm           has imported torch; enforces limits (execution/warm.py)
          └─ evaluation  one per job, in a session of its own (execution/child.py)

Whichever process is killed, none stays: without coordinator the guard ends all; without guard the warm process does;
without warm process the kernel ends the evaluation, and the guard what the evaluation started.
"""

from __future__ import annotations

import sys

from evodevo.errors import ExitCode
from evodevo.execution.guard import guard


def main(arguments: list[str]) -> int:
    """Run a guard with its warm process until the coordinator is gone; gives the exit status.

    Args:
        arguments: the coordinator's process id, and a folder for temporary files, which is removed at the end.
    """
    if len(arguments) != 2 or not arguments[0].isdecimal():
        print("evodevo.worker is started by evodevo itself; to run a search: evodevo evolve --help", file=sys.stderr)
        return ExitCode.USAGE
    return guard(int(arguments[0]), arguments[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
