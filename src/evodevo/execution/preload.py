"""What a warm process may import before it forks. A message names a row; it never names a module."""

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
    "broken": "evodevo.testing.broken",  # for the conformance suite: it fails
}


def check_preload(names: Sequence[str]) -> tuple[str, ...]:
    """The names, if each is a row of ``PRELOADS``.

    Raises:
        UsageError: one is not; the message holds the nearest one.
    """
    for name in names:
        if name not in PRELOADS:
            raise unknown_name("preload", name, PRELOADS)
    return tuple(names)


def prepare(names: Sequence[str], packages: Sequence[str]) -> None:
    """Make this process ready to fork evaluations: import, enable packages, check what that did.

    Args:
        names: rows of ``PRELOADS``.
        packages: installed packages whose rows are added to the tables that the imports brought.

    Raises:
        Exception: whatever an import raises.
        EvodevoError: something touched CUDA, which forked processes could then not use.
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
    gc.freeze()  # the collector must not touch, and so copy, the pages that evaluations share
