"""A little text, and one small search, made through the command line, that the tests of commands and docs look at."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from evodevo.cli.application import run

UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # no law is about speed
settings.register_profile("suite", max_examples=30, **UNTIMED)
settings.register_profile("thorough", max_examples=10_000, **UNTIMED)
settings.load_profile("suite")  # ``--hypothesis-profile=thorough`` is loaded after this

# A shell that starts tests in the background lets them, and so all processes that they start, ignore Ctrl-C; tests of
# Ctrl-C need a machine on which it works.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 * 2**30


def room_in_memory() -> bool:
    """Whether files of tests may lie in memory: there is room, and programs among them may be run."""
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize >= ROOM_BYTES and not found.f_flag & os.ST_NOEXEC


# No law is about the disk, on which fsync takes a tenth to a half of the time of tests with a store.
if room_in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-cases", action="store_true", help="of each test only the first of its cases")


@pytest.hookimpl(trylast=True)  # the first of those that ``-m`` leaves
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``make quick``: each law on one of its cases; ``make test`` runs all."""
    if not config.getoption("--first-cases"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    config.hook.pytest_deselected(items=[item for item in items if item is not first[item.nodeid.partition("[")[0]]])
    items[:] = first.values()


def pytest_collection_finish() -> None:
    """What was collected stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests of each service ran: without it they are skipped, which is easily overlooked."""
    for service in ("PostgreSQL", "Ray", "Slurm"):
        word = re.compile(rf"(\b|_){service.lower().removesuffix('ql')}(ql)?(\b|_)")
        ran, skipped = (
            sum(bool(word.search(report.nodeid)) for report in terminalreporter.stats.get(outcome, ()))
            for outcome in ("passed", "skipped")
        )
        if ran or skipped:
            terminalreporter.write_line(f"tests of {service}: {ran} passed, {skipped} skipped")


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "sleeps"]
    path.write_text("\n".join(" ".join(words[(n * n + k * k) % 11] for k in range(9)) for n in range(200)))
    return path


@pytest.fixture(scope="session")
def novel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of words that follow each other by a rule, enough for all splits."""
    folder = tmp_path_factory.mktemp("novel")
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "sleeps"]
    rng = np.random.default_rng(0)
    for number in range(40):
        lines = (" ".join(words[int(k)] for k in rng.integers(0, 11, 8)) for _ in range(20))
        (folder / f"{number}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Sums of floats do not depend on the machine's cores, and two test processes do not fight for them."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


SMALL = """
[space]
depth = 8
dimensions.width = 16
dimensions.head_size = 4

[evaluation]
language.context_length = 16
training.budget.tokens = 256
training.batch_size = 4
validation_tokens = 256

[study]
population = 4
generations = 2
confirmations = 2

[execution]
executor = "serial"
"""


@dataclass(frozen=True)
class Small:
    """Where the small search lies, and how to begin another."""

    store: Path
    run: str
    text: Path
    config: Path

    def evolve(self, store: Path, *more: str) -> int:
        """Another search of the same size; gives the exit code."""
        begin = ["evolve", "backbone.demo", "--config", str(self.config), "--data", str(self.text)]
        return run([*begin, "--store", str(store), *more])


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    folder = tmp_path_factory.mktemp("small")
    text = folder / "text"
    text.mkdir()
    for number in range(40):
        lines = [f"def function_{number}_{line}(value):\n    return value * {line}\n" for line in range(12)]
        (text / f"file_{number}.txt").write_text("".join(lines))
    config = folder / "small.toml"
    config.write_text(SMALL)
    made = Small(folder / "runs", "", text, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        assert made.evolve(made.store) == 0
    from evodevo.runs.archive import Archive

    with Archive(made.store) as archive:
        return Small(made.store, archive.run("last").id, text, config)


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a system whose paths answer; see ``testing.answering``. Tests that change it take a copy."""
    from evodevo.testing.multitask.answering import answering_system

    folder = tmp_path_factory.mktemp("gallery") / "runs"
    answering_system(folder)
    return folder


@dataclass(frozen=True)
class Systems:
    """Stores with the system ``zoo``, whose tasks are made of the digits.

    Attributes:
        bare: it has a root that was not made yet, and no task.
        grown: it has the tasks digits and digits_parity, whose agents have ended a cycle.
        images: a folder of two classes of images.
    """

    bare: Path
    grown: Path
    images: Path


@pytest.fixture(scope="session")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Systems:
    """Made through Python, with children that are trained for a moment."""
    import numpy as np
    from PIL import Image

    from evodevo import add_task, create_system, run_system
    from evodevo.execution.serial import SerialExecutor

    folder = tmp_path_factory.mktemp("systems")
    made = Systems(folder / "bare", folder / "grown", folder / "images")
    settings = {
        "cycle": {"samples": 2, "generation_size": 2},
        "training": {"validations": 1, "most_between": 64, "device": "cpu"},
        "root": {
            "structure": {"width": 16, "heads": 2, "hidden": 16},
            "hyperparameters": {
                "num_layers": {"values": [0, 1, 2], "default": 1},
                "ds_image_size": {"values": [8, 16], "default": 8},
            },
        },
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for store in (made.bare, made.grown):
            create_system("zoo", kind="VitTiny", overrides=settings, store=store)
        add_task("zoo", "digits", store=made.grown)
        add_task("zoo", "digits_parity", question="parity", store=made.grown)
        with SerialExecutor() as executor:
            run_system("zoo", store=made.grown, executor=executor)
    for name, shade in (("even", 40), ("odd", 200)):
        (made.images / name).mkdir(parents=True)
        for number in range(12):
            Image.fromarray(np.full((6, 5), shade + number, np.uint8)).save(made.images / name / f"{number}.png")
    return made
