"""Commands of evodevo in forks of this process, and all that they recorded: what campaigns share."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from campaign import FORKS

from evodevo import canonical
from evodevo.cli.application import run
from evodevo.storage import Store, failpoints
from evodevo.testing.histories import history

TEXT = (
    "def add(a, b):\n    return a + b\n\nclass Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n"
)
LANGUAGE = (
    *("--data", "text.py", "--set", "space.depth=8", "--set", "space.dimensions.width=16"),
    *("--set", "space.dimensions.head_size=4", "--set", "evaluation.language.context_length=16"),
    *("--set", "evaluation.training.batch_size=4", "--set", "evaluation.training.report_every=1"),
    *("--set", "evaluation.validation_tokens=256", "--set", "study.population=3", "--set", "study.generations=2"),
    *("--set", "execution.executor=serial"),
)
EVOLVE = (
    *("evolve", "backbone.demo", *LANGUAGE, "--set", "evaluation.training.budget.tokens=256"),
    *("--set", "evaluation.training.checkpoint_every=2", "--set", "study.confirmations=1"),
)
CLOCKS = ("seconds", "bytes_per_second", "samples_per_second", "forecast", "command", "at", "versions")
EVENTS = ("generation", "protocol.stage", "protocol.finalists", "protocol.test", "growth", "source", "space.exhausted")


def everything(store: Store) -> Any:
    """Individuals, outcomes and events of all runs, whose ids are replaced."""
    runs = store.runs()
    label = {row.id: f"run {place}" for place, row in enumerate(runs)}
    births = {one.id: f"{label[row.id]} {one.birth}" for row in runs for one in store.individuals(row.id)}
    found = [
        {
            "kind": row.kind,
            "state": row.state,
            "individuals": [asdict(birth) for birth in history(store, row.id)],
            "events": [
                [event.type, event.subject, _timeless(event.payload)]
                for event in store.events(row.id)
                if event.type in EVENTS
            ],
        }
        for row in runs
    ]
    text = canonical.dumps(found)
    for identity, name in {**births, **label}.items():
        text = text.replace(identity, name)
    return json.loads(text)


def write_data(folder: Path) -> None:
    """The text on which the searches train."""
    (folder / "text.py").write_text("".join(f"# {number}\n{TEXT}" for number in range(200)))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if not any(word in key for word in CLOCKS)}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def session(
    folder: Path,
    command: Sequence[str],
    *,
    armed: str = "",
    passes: Path | None = None,
    largest: int | None = None,
    output: Path = Path("output.txt"),
) -> Any:
    """Start a process, a fork of this one, that runs a command of evodevo in a folder, with its store ``runs`` there.

    Args:
        folder: Current folder; prepared data lie in ``cache``.
        command: Command without ``--store``; one that names ``runs`` itself gets no option.
        armed: Failpoint, see ``failpoints``.
        passes: File for the number of passes of each failpoint.
        largest: Largest size of a file in bytes.
        output: File that gets what is printed, in the folder if it is relative.
    """

    def work() -> None:
        os.chdir(folder)
        printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        failpoints._armed = armed or None
        counted: Counter[str] = Counter()
        if passes is not None:
            failpoints._armed = "counted"
            failpoints._pass = lambda name, armed: counted.update([name])
        if largest is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        code = run([*command] if "runs" in command else [*command, "--store", "runs"])
        if passes is not None:
            passes.write_text(json.dumps(counted))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    process = FORKS.Process(target=work)
    process.start()
    return process


def difference(ours: Any, theirs: Any, place: str = "") -> str:
    """The first place at which two documents differ; empty where they are equal."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return next((found for key in ours if (found := difference(ours[key], theirs[key], f"{place}.{key}"))), "")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next((found for n, pair in pairs if (found := difference(*pair, f"{place}[{n}]"))), "")
    return "" if ours == theirs else f"{place}: {str(ours)[:300]} instead of {str(theirs)[:300]}"
