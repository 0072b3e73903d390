"""Processes for tests that kill them, forked from one that has loaded the store, so that each starts at once."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import TextIO

from evodevo.storage import failpoints

CONTEXT = multiprocessing.get_context("forkserver")
# Installed modules, because the process that forks finds no others; alembic makes the tables of a new store.
CONTEXT.set_forkserver_preload(["evodevo.storage.database", "evodevo.testing.multitask.systems", "alembic.command"])
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Fork:
    """A running process.

    Attributes:
        process: the process.
        out: what it prints, errors too.
    """

    process: ForkServerProcess
    out: TextIO

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def end(self) -> tuple[int | None, str]:
        """Its exit code, negative for a signal, and all that it has printed."""
        said = self.out.read()
        self.process.join(PATIENCE_SECONDS)
        return self.process.exitcode, said

    def refusal(self) -> str:
        """All that it says if it does not get what it wants to hold."""
        first = self.out.readline()
        assert not first.startswith("held"), "it was not refused"
        return first + self.end()[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@contextmanager
def forked(work: Callable[..., None], *arguments: object, failpoint: str = "") -> Iterator[Fork]:
    """A process that does some work, with a failpoint armed; it is killed at the end if it still lives."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_begin, args=(writer, failpoint, work, arguments), daemon=True)
    process.start()
    writer.close()
    with reader, os.fdopen(os.dup(reader.fileno())) as out:
        fork = Fork(process, out)
        try:
            yield fork
        finally:
            fork.kill()


def _begin(writer: Connection, failpoint: str, work: Callable[..., None], arguments: tuple[object, ...]) -> None:
    for descriptor in (1, 2):
        os.dup2(writer.fileno(), descriptor)
    warnings.simplefilter("error")
    failpoints._armed = failpoint or None
    work(*arguments)
