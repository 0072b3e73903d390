"""CPU time of ``evodevo extend create`` and ``extend add`` as processes, for small data of each form.

Run: python benchmarks/extend_add.py [--json PATH] [--rounds 5] [--larger 1]

Every command is a process of its own, started in turns with ``evodevo --version`` and ``python -c pass``, and its CPU
time is that of all its processes, start-up included. A task is added to a fresh copy of one store with an empty cache
of prepared data, so that all data are read. Modules are compiled once before, as those of an installed package are:
where PYTHONDONTWRITEBYTECODE is set, each process compiles them again, for a quarter of a second. With ``--larger 1``,
also the larger sets of the real data beside the repository, where they are there.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import wavfile

from measuring import Report, Spread, arguments, ratio, take_turns

ROUNDS = 5
SECONDS = 1.0
SAMPLES = 60
LARGER = ("mnist10k", "fashion_mnist", "cifar10_jpg", "trec")
SHARED = Path(__file__).parents[2] / "shared" / "data"
EVODEVO = [sys.executable, "-m", "evodevo.cli"]


def images(place: Path) -> None:
    """A folder of two classes."""
    chance = np.random.default_rng(1)
    for number in range(SAMPLES):
        folder = place / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(chance.integers(0, 256, (28, 28), dtype=np.uint8)).save(folder / f"{number}.png")


def sounds(place: Path) -> None:
    """A folder of two classes of tones, a quarter of a second each."""
    times = np.arange(4_000) / 16_000
    for number in range(SAMPLES):
        folder = place / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        wave = np.sin(2 * np.pi * (300 + 20 * number) * times)
        wavfile.write(folder / f"{number}.wav", 16_000, (wave * 20_000).astype(np.int16))


def arrays(place: Path) -> None:
    """An npz of images."""
    pixels = np.random.default_rng(1).integers(0, 256, (SAMPLES, 28, 28), dtype=np.uint8)
    np.savez(place, x=pixels, y=np.arange(SAMPLES) % 2)


def table(place: Path) -> None:
    """A table of four numbers."""
    numbers = np.random.default_rng(1).normal(size=(SAMPLES, 4)).round(4)
    rows = [f"{','.join(map(str, row))},{'ab'[number % 2]}\n" for number, row in enumerate(numbers.tolist())]
    place.write_text(f"p,q,r,s,label\n{''.join(rows)}")


def split_tables(place: Path) -> None:
    """A folder with a table for training and one for tests."""
    place.mkdir()
    for name in ("train", "test"):
        table(place / f"{name}.csv")
    path = place / "test.csv"
    path.write_text(path.read_text().replace(",a\n", "1,a\n").replace(",b\n", "1,b\n"))


def texts(place: Path) -> None:
    """A table of texts."""
    rows = [f"the {'cat' if number % 2 else 'dog'} number {number},{'ab'[number % 2]}\n" for number in range(SAMPLES)]
    place.write_text(f"text,label\n{''.join(rows)}")


FORMS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "images, a folder": ("images", images),
    "images, .npz": ("images.npz", arrays),
    "sounds, a folder": ("sounds", sounds),
    "a table, .csv": ("table.csv", table),
    "a table, train.csv and test.csv": ("tables", split_tables),
    "texts, .csv": ("texts.csv", texts),
}


def children_seconds() -> float:
    """CPU time of all processes that this one began and saw end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Commands:
    """Processes in a folder of their own.

    Args:
        scratch: The folder.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        own = {"XDG_CACHE_HOME": str(scratch / "cache"), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
        self._environment = {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": ""}

    def run(self, *words: str) -> None:
        """One process, which has to succeed."""
        subprocess.run(words, capture_output=True, check=True, env=self._environment)

    def create(self) -> None:
        """A system in a new store."""
        shutil.rmtree(self._scratch / "made", ignore_errors=True)
        self.run(*EVODEVO, "extend", "create", "zoo", "--store", str(self._scratch / "made"))

    def system(self) -> None:
        """The store that tasks are added to: with a root for images, and one for texts."""
        store = ["--store", str(self._scratch / "whole")]
        self.run(*EVODEVO, "extend", "create", "zoo", *store)
        self.run(*EVODEVO, "extend", "create", "zoo", "--beside", "--class", "TextTiny", *store)

    def add(self, name: str, data: Path | None) -> None:
        """A task in a copy of that store, with nothing prepared."""
        shutil.rmtree(self._scratch / "copy", ignore_errors=True)
        shutil.rmtree(self._scratch / "cache", ignore_errors=True)
        shutil.copytree(self._scratch / "whole", self._scratch / "copy")
        given = [] if data is None else ["--data", str(data)]
        self.run(*EVODEVO, "extend", "add", "zoo", name, *given, "--store", str(self._scratch / "copy"))


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, rounds=ROUNDS, larger=0)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        commands = Commands(scratch)
        commands.system()
        runs: dict[str, Callable[[], object]] = {
            "python -c pass": lambda: commands.run(sys.executable, "-c", "pass"),
            "evodevo --version": lambda: commands.run(*EVODEVO, "--version"),
            "extend create": commands.create,
            "extend add: scikit-learn's digits": lambda: commands.add("digits", None),
        }
        for form, (name, make) in FORMS.items():
            make(scratch / name)
            runs[f"extend add: {form}"] = partial(commands.add, "mine", scratch / name)
        larger = [SHARED / name for name in LARGER] if options.larger else []
        for place in filter(Path.is_dir, larger):
            runs[f"extend add: {place.name}"] = partial(commands.add, "mine", place)
        begin = time.perf_counter()
        used = take_turns(runs, options.rounds, settle=False, clock=children_seconds)
        settings = {"rounds": options.rounds, "seconds": round(time.perf_counter() - begin), "samples": SAMPLES}
        report = Report("Adding tasks to a system", settings=settings, clock="CPU time of a process and its children")
        version = used["evodevo --version"]
        for name, values in used.items():
            found = Spread.of(values)
            times = ratio(values, version)
            report.rows.append(
                {"process": name, "CPU, s": found.show(), "least, s": f"{min(values):.2f}", "x --version": times.show()}
            )
            small = name.removeprefix("extend add: ") in FORMS or name == "extend create" or "digits" in name
            if small and "sounds" not in name:
                report.at_most(f"{name}: CPU seconds, least of {len(values)}", min(values), SECONDS)
        report.finish(options.json)


if __name__ == "__main__":
    main()
