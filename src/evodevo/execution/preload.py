"""Imports of a warm process before it forks. A message holds a name from the table here, never a module's name."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence

from evodevo.errors import EvodevoError, unknown_name
from evodevo.registry import enable_packages

PRELOADS = {
    "torch": "torch",
    "evaluation": "evodevo.backbone.evaluate",
    "networks": "evodevo.experiments.evaluate",
    "paths": "evodevo.multitask.evaluate",
    "sleeping": "evodevo.testing.evaluations.sleeping",  # for searches without training, in tests and measurements
    "broken": "evodevo.testing.evaluations.broken",  # a module whose import fails, for the conformance suite
}


def check_preload(names: Sequence[str]) -> tuple[str, ...]:
    """The names themselves, after a check that each is in ``PRELOADS``.

    Raises:
        UsageError: A name is unknown; the message has the nearest one.
    """
    for name in names:
        if name not in PRELOADS:
            raise unknown_name("preload", name, PRELOADS)
    return tuple(names)


def prepare(names: Sequence[str], packages: Sequence[str]) -> None:
    """Make this process ready to fork evaluations: import modules, enable packages, check for side effects.

    Args:
        names: Names in ``PRELOADS``.
        packages: Installed packages whose rows are added to the tables of the imported modules.

    Raises:
        Exception: Any exception of an import.
        EvodevoError: A module initialised CUDA, which forked processes could then not use.
    """
    for name in check_preload(names):
        importlib.import_module(PRELOADS[name])
    enable_packages(tuple(packages))
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise EvodevoError("a module touched CUDA while it was imported; evaluations could then not use it.")
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        print(f"warning: imports started {threads - 1} threads, which evaluations will not have.", file=sys.stderr)
    gc.collect()
    gc.freeze()  # a collection in a child would write to, and so copy, the pages that it shares with this process
