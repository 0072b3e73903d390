"""A worker on a node of a Slurm cluster: ``python -m evodevo.execution.clusters.slurm.worker``, started by ``srun``."""

from __future__ import annotations

import os
import platform
import sys

from evodevo import __version__
from evodevo.errors import ExitCode
from evodevo.execution.devices import VISIBLE
from evodevo.execution.guard import guard
from evodevo.scratch import Scratch


def main(arguments: list[str]) -> int:
    """Run a guard with its warm process until ``srun`` closes the stream or Slurm ends; gives the exit status.

    Args:
        arguments: the coordinator's version of evodevo.
    """
    if arguments != [__version__]:
        there = " ".join(arguments)
        print(
            f"node {platform.node()}: it has evodevo {__version__}, the coordinator has {there}; "
            "install the same there.",
            file=sys.stderr,
        )
        return ExitCode.USAGE
    os.environ.setdefault(VISIBLE, "")  # Slurm sets it where it grants a GPU; others of the node belong to others
    return guard(os.getppid(), Scratch().path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
