"""What an evaluation may change in its process, put back before the next one: so that it begins as in a new process."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_STATEFUL = ("numpy", "torch")


class ProcessState:
    """Folder, environment, signals, warnings, and random numbers and settings of numpy and torch, as they are now."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._signals = {number: signal.getsignal(number) for number in _SIGNALS}
        self._filters = list(warnings.filters)
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._random = random.getstate()
        self._modules = [name for name in _STATEFUL if name in sys.modules]
        self._numpy: Any = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self._torch: Callable[[], None] | None = _of_torch(sys.modules["torch"]) if "torch" in sys.modules else None

    @property
    def are_known(self) -> bool:
        """Whether all can be put back: no thread is left, and no library with a state of its own was imported since."""
        return threading.active_count() == 1 and all(name in self._modules for name in _STATEFUL if name in sys.modules)

    def put_back(self) -> None:
        """Make all as it was, and free what nobody refers to, on a device too.

        Raises:
            OSError: The folder is gone.
        """
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update(self._environment)
        sys.path[:] = self._path
        tempfile.tempdir = None
        for number, handler in self._signals.items():
            if handler is not None:  # one that was not set from Python cannot be set from it
                signal.signal(number, handler)
        warnings.resetwarnings()  # so that what a module has warned of already is decided anew
        filters: Any = warnings.filters
        filters.extend(self._filters)
        os.umask(self._umask)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        random.setstate(self._random)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        gc.collect()
        if self._torch is not None:
            self._torch()


def _of_torch(torch: Any) -> Callable[[], None]:
    """A function that puts torch back; it touches nothing that is as it was, since some setters load the compiler."""
    seed, state = torch.initial_seed(), torch.get_rng_state()
    backends = torch.backends

    def settings() -> list[tuple[Any, Callable[[], None]]]:
        """Each setting as it is now, and a function that makes it so again."""
        kind, device, gradients = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
        strict = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
        precision = torch.get_float32_matmul_precision()
        flags = [
            (place, name, getattr(place, name))
            for place, name in ((backends.cudnn, "benchmark"), (backends.cudnn, "deterministic"))
        ]
        return [
            (kind, lambda: torch.set_default_dtype(kind)),
            (device, lambda: torch.set_default_device(None if device.type == "cpu" else device)),
            (gradients, lambda: torch.set_grad_enabled(gradients)),
            (strict, lambda: torch.use_deterministic_algorithms(strict[0], warn_only=strict[1])),
            (precision, lambda: torch.set_float32_matmul_precision(precision)),
            *((value, partial(setattr, place, name, value)) for place, name, value in flags),
        ]

    before = settings()

    def put_back() -> None:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        torch.manual_seed(seed)  # of all devices
        torch.set_rng_state(state)
        for (was, restore), (now, _) in zip(before, settings(), strict=True):
            if was != now:
                restore()

    return put_back
