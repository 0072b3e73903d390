"""Tasks of few labelled samples: an agent with its defaults beside the same network from scratch and fine-tuned.

Run: python benchmarks/extend_few.py --data FOLDER [--json PATH] [--store FOLDER]
    [--base fashion_mnist,mnist10k,omniglot_small1,cmaterdb_devanagari,cmaterdb_bangla,notmnist10k,cifar10_jpg]
    [--sets cmaterdb_bangla,cmaterdb_devanagari,notmnist10k,cifar10_jpg --each 10,20,50 --draws 0,1,2]
    [--steps 1500 --base-steps 2000 --class ConvSmall --objective likelihood]

One system has learned each set of ``--base`` whole, each from the root alone. Then each set of ``--sets`` gives a task
of so many training samples of each class, and 20 for validation, drawn anew for each number of ``--draws``; nothing of
it builds on the path that has learned the set whole. Arms, each with ``--steps`` steps in all:

- ``extend``: a new agent, ``run --budget``, all else by default but the objective by which children are selected;
- ``scratch``, ``root``, ``best parent``: the same network trained whole from random weights, from the root, or from
  the path whose probe is best, in a third of the steps at each of three learning rates; validation chooses among them;
- ``3-NN`` and ``logistic`` regression on pixels at 20 x 20 grey.

All arms of networks have the same settings of training and look at validation equally often in a third of the steps.
Accuracy on the whole test split, which nothing has chosen by; CPU seconds of one process of one thread, where the
probes count for ``extend`` alone. With ``--store`` a stopped benchmark goes on; CPU seconds of the task in which it was
stopped are then those after it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from evodevo import canonical
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments.paired import paired_mean
from evodevo.multitask.evaluate import evaluate_path, measure_path
from evodevo.multitask.problem import EVALS
from evodevo.multitask.recorded import ACCURACY
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.run import run_system
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.multitask.transfer.table import recorded
from evodevo.search.problem import Outcome, read_answer
from evodevo.storage import Store
from evodevo.tasks.multitask.few import FewSamples
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from extend_budget import logistic
from extend_images import nearest
from measuring import THREADS, Report

RATES = (0.02, 0.05, 0.2)
VALIDATION = 20
SYSTEM = "zoo"
HEAD = "head"
NETWORKS = ("extend", "best parent", "root", "scratch")
"""Arms in the order of their columns; the first is compared with the others."""


def asked(work: Any, request: dict[str, Any]) -> Outcome:
    """The outcome of an evaluation in this process."""
    outcome = read_answer(work(canonical.dumps(request).encode(), lambda _: None))
    assert not outcome.reason, outcome.detail
    return outcome


class Few:
    """The system, and the arms of one task of few samples."""

    def __init__(self, folder: Path, options: Any) -> None:
        self.folder, self.options = folder, options
        self.common: dict[str, Any] = {"store": folder / "runs", "cache_folder": folder / "cache"}

    def base(self) -> None:
        """Learn whole sets; what has been learned stays."""
        names = self.options.base.split(",")
        if not (self.folder / "runs").exists():
            create_system(SYSTEM, kind=self.options.kind, seed=0, **self.common)
        for name in names:
            if not self.has(name):
                add_task(SYSTEM, name, data=self.data(name), overrides={"builds_on": ["*~root_model~*"]}, **self.common)
        with SerialExecutor() as executor:
            for name in names:
                given = f"{self.options.base_steps}steps"
                if self.published(name) is None:
                    run_system(SYSTEM, tasks=[name], budget=given, cycles=1, executor=executor, **self.common)
                print(f"whole: {name} {self.published(name):.4f} on validation", flush=True)

    def data(self, name: str) -> Path:
        """Folder of a set."""
        return Path(self.options.data).resolve() / name

    def has(self, task: str) -> bool:
        """Whether the system has an agent of a task, be it that it was stopped."""
        with Store.open(self.folder / "runs") as store:
            return bool(System.open(store, SYSTEM).agents(tasks=[task]))

    def published(self, task: str) -> float | None:
        """Quality on validation of the path of a task; None without one."""
        with Store.open(self.folder / "runs") as store:
            known = System.open(store, SYSTEM).view().offers.get(f"{self.options.kind}~{task}")
            return None if known is None else known.quality

    def extend(self, name: str, task: str, few: dict[str, int]) -> float:
        """Accuracy on test of what a new agent publishes."""
        others = [other for other in self.options.base.split(",") if other != name]
        reads = ["*~root_model~*", *(f"{self.options.kind}~{other}" for other in others)]
        overrides = {"task": {"few": few}, "training": {"objective": self.options.objective}, "builds_on": reads}
        if not self.has(task):
            add_task(SYSTEM, task, data=self.data(name), overrides=overrides, **self.common)
        with SerialExecutor() as executor:
            given = f"{self.options.steps}steps"
            run_system(SYSTEM, tasks=[task], budget=given, cycles=1, test=True, executor=executor, **self.common)
        with Store.open(self.folder / "runs") as store:
            system = System.open(store, SYSTEM)
            known = system.view().offers[f"{self.options.kind}~{task}"]
            (test,) = [
                row for row in system.store.systems.evaluations_of([known.id])[known.id] if row.fidelity == "test"
            ]
            return test.scores[ACCURACY].value or 0.0

    def tuned(self, task: str, arm: str, seed: int) -> tuple[float, str]:
        """Accuracy on test of a network that is trained whole at the best of three rates; what it began with."""
        with Store.open(self.folder / "runs") as store:
            system = System.open(store, SYSTEM)
            agent = system.agent(f"{self.options.kind}~{task}")
            settings = agent_settings(agent)
            table = recorded(store, agent.id)
            assert table is not None, "several paths were in view"
            probed = table.losses
            roots = [name for name in probed if "~root_model~" in name]
            begun = roots[0] if arm == "root" else min(probed, key=lambda path: probed[path])
            maker, _, number = begun.rpartition("/")
            parent = system.library.request(system.library.by_number(maker, int(number)))
            roles = [role for role in parent["components"] if role != HEAD] + [HEAD]
            sources: dict[str, dict[str, Any]] = {
                role: {"train": True, "how": "new"}
                if role == HEAD or arm == "scratch"
                else {**parent["components"][role], "train": True, "how": "clone"}
                for role in roles
            }
            path = {**parent["path"], "classes": settings.classes, "task": task}
            path["components"] = [{"role": role, "id": f"{maker}:{place}"} for place, role in enumerate(roles)]
            request = {
                "task": task,
                "task_settings": settings.task,
                "task_key": settings.task_key,
                "training": {**settings.training, "steps": self.options.steps // len(RATES)},
                "blobs": store.blobs.address,
                "cache": str(self.folder / "cache"),
                "seed": seed,
            }
            ends = []
            for rate in RATES:
                values = {**path["hparams"], "opt_lr": rate}
                given = {**request, "path": {**path, "hparams": values}, "components": sources}
                outcome = asked(evaluate_path, given)
                measured = {role: {"digest": digest} for role, digest in outcome.blobs.items()}
                test = asked(measure_path, {**given, "components": measured, "split": "test"})
                ends.append((max(outcome.extra[EVALS]), test.scores[ACCURACY]))
            return max(ends, key=lambda end: end[0])[1], "" if arm == "scratch" else begun

    def cells(self) -> Iterator[dict[str, Any]]:
        """The rows of all tasks; the draws are the outer loop, so that a part of them is a whole table."""
        draws, numbers, sets = (text.split(",") for text in (self.options.draws, self.options.each, self.options.sets))
        for draw, number, name in itertools.product(draws, numbers, sets):
            few = {"train": int(number), "validation": VALIDATION, "draw": int(draw)}
            task = f"{name}_{number}_{draw}"
            kept = self.folder / f"{task}.json"
            if not kept.exists():
                kept.write_text(json.dumps(self.cell(name, task, few)))
            yield {"set": name, "each": int(number), "draw": int(draw), "arms": json.loads(kept.read_text())}

    def cell(self, name: str, task: str, few: dict[str, int]) -> dict[str, dict[str, Any]]:
        """Arm -> its accuracy on test, CPU seconds, and what it began with."""
        found: dict[str, dict[str, Any]] = {}

        def keep(arm: str, begin: float, accuracy: float, begun: str = "") -> None:
            seconds = time.process_time() - begin
            found[arm] = {"accuracy": accuracy, "seconds": seconds, "begun": begun}
            print(task, arm, f"{accuracy:.4f}", f"{seconds:.0f} CPU s", begun, flush=True)

        begin = time.process_time()
        keep("extend", begin, self.extend(name, task, few))
        for arm in NETWORKS[1:]:
            begin = time.process_time()
            keep(arm, begin, *self.tuned(task, arm, few["draw"]))
        settings = MultitaskSettings(data=str(self.data(name)), few=FewSamples(**few))
        opened = MultitaskTask.open(settings, self.folder / "cache")
        for arm, plain in {"3-NN": nearest, "logistic": logistic}.items():
            begin = time.process_time()
            keep(arm, begin, plain(opened))
        return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--data", required=True, help="folder with a folder for each set")
    parser.add_argument("--store", type=Path, default=None, help="folder of what is done; a temporary one without it")
    whole = "fashion_mnist,mnist10k,omniglot_small1,cmaterdb_devanagari,cmaterdb_bangla,notmnist10k,cifar10_jpg"
    few = "cmaterdb_bangla,cmaterdb_devanagari,notmnist10k,cifar10_jpg"
    parser.add_argument("--base", default=whole, help="sets that are learned whole before")
    parser.add_argument("--sets", default=few, help="sets that give few samples")
    parser.add_argument("--each", default="10,20,50", help="training samples of each class")
    parser.add_argument("--draws", default="0,1,2", help="seeds of the samples")
    parser.add_argument("--steps", type=int, default=1500, help="of each arm in all")
    parser.add_argument("--base-steps", type=int, default=2000, help="of each set that is learned whole")
    parser.add_argument("--class", dest="kind", default="ConvSmall", help="class of agents")
    parser.add_argument("--objective", default="likelihood", help="by which validation chooses")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    report = Report("tasks of few labelled samples", settings={"steps": options.steps, "class": options.kind})
    with tempfile.TemporaryDirectory() as scratch:
        bench = Few((options.store or Path(scratch)).resolve(), options)
        bench.folder.mkdir(parents=True, exist_ok=True)
        bench.base()
        cells = list(bench.cells())
    for cell in cells:
        facts = {arm: f"{100 * ended['accuracy']:.1f}" for arm, ended in cell["arms"].items()}
        begun = cell["arms"]["best parent"]["begun"].rpartition("/")[0]
        report.rows.append(
            {"set": cell["set"], "of each class": cell["each"], "draw": cell["draw"], **facts, "best parent is": begun}
        )
    for number in sorted({cell["each"] for cell in cells}):
        summarise([cell for cell in cells if cell["each"] == number], number)
    report.finish(options.json)


def summarise(cells: list[dict[str, Any]], number: int) -> None:
    """Print the mean of each arm over the sets, and how far ``extend`` is above it, in pairs of draws."""
    draws = sorted({cell["draw"] for cell in cells})

    def means(arm: str, fact: str) -> list[float]:
        found = ([cell["arms"][arm][fact] for cell in cells if cell["draw"] == draw] for draw in draws)
        return [sum(values) / len(values) for values in found]

    ours = means(NETWORKS[0], "accuracy")
    for arm in cells[0]["arms"]:
        theirs, seconds = means(arm, "accuracy"), means(arm, "seconds")
        gap = paired_mean(ours, theirs) if arm != NETWORKS[0] else None
        above = (
            ""
            if gap is None
            else (f"; extend {100 * gap.mean:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f}) points above it")
        )
        mean, cost = 100 * sum(theirs) / len(draws), sum(seconds) / len(draws)
        print(f"{number} of each class, {len(draws)} draws, {arm}: {mean:.1f} %, {cost:.0f} CPU s{above}", flush=True)


if __name__ == "__main__":
    main()
