"""``srun`` that leaves the queue when its coordinator ends: ``python -m evodevo.execution.clusters.slurm.client``."""

from __future__ import annotations

import os
import signal
import sys

from evodevo.execution.family import die_with


def main(arguments: list[str]) -> None:
    """Become ``srun``.

    Args:
        arguments: process id of the coordinator, and arguments of ``srun``.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background processes ignore it, and hand that on
    # One interrupt withdraws a job that waits; one that runs ends by the end of its stream.
    die_with(int(arguments[0]), signal.SIGINT)
    os.execvp("srun", ["srun", *arguments[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
