"""Systems whose children are not trained: their accuracy is a function of their values. Everything else is real."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from evodevo import canonical
from evodevo.execution.base import Event, Executor, Result
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask import problem
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.kinds import KINDS, structure_of
from evodevo.multitask.paths.multipath_spec import MultipathStructure, multipath_parameters
from evodevo.multitask.recorded import CPU_SECONDS
from evodevo.multitask.search.score import kept_evaluation
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.multitask.transfer.problem import ENTRY, TABLE
from evodevo.multitask.transfer.table import TransferRow, TransferTable
from evodevo.randomness import generator
from evodevo.search.problem import Outcome, read_answer, write_answer
from evodevo.settings import validate
from evodevo.storage import Store

SIZES = {"num_layers": {"values": [0, 1, 2], "default": 1}, "ds_image_size": {"values": [8, 16], "default": 8}}
ROOT = {"structure": {"width": 8, "heads": 2, "hidden": 8}, "hyperparameters": SIZES}


class PathTrainer:
    """An evaluator: accuracy by the path's values and a keyed bit of luck; weights by what was trained from what."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[dict[str, Any]] = []
        self.fail: Callable[[dict[str, Any]], bool] = lambda payload: False
        self.test_metric: Callable[[], float] = lambda: 0.0
        self.accuracy: Callable[[Path, int, int], float] = accuracy

    def __call__(self, payload: bytes, report: object) -> bytes:
        job = canonical.loads(payload)
        self.calls.append(job)
        if self.fail(job):
            raise RuntimeError("out of luck")
        path = validate(Path, job["path"], what="path")
        sizes = _sizes(path, job)
        assert set(job["components"]) == set(sizes), "the components of a path are those of its structure"
        learns = [role for role, one in job["components"].items() if one["train"]]
        evals = [] if "root" in job else [round(self.accuracy(path, job["seed"], step), 3) for step in range(3)]
        improved = "root" in job or kept_evaluation(evals, job["bar"]) is not None
        blobs = {
            role: self.store.blobs.put_bytes(
                canonical.dumps([role, job["components"][role]["digest"], job["seed"]]).encode()
            )
            for role in learns
        }
        return write_answer(
            Outcome(
                scores={"quality": max(evals)} if evals else {},
                extra={
                    problem.EVALS: evals,
                    problem.IMPROVED: improved,
                    problem.SIZES: {role: sizes[role] for role in learns},
                    "test": self.test_metric(),
                },
                blobs=blobs if improved else {},
            )
        )


def answer_of(payload: bytes) -> dict[str, Any]:
    """The answer of an evaluator of paths, with its facts, scores and components on one level, but without its time,
    so that equal requests have equal answers."""
    outcome = read_answer(payload)
    facts = {"quality": None, "improved": False, "evals": [], **outcome.extra, **outcome.scores}
    sizes = facts.pop(problem.SIZES, {})
    facts.pop(CPU_SECONDS, None)
    components = {role: {"digest": digest, "parameters": sizes[role]} for role, digest in outcome.blobs.items()}
    return {"reason": outcome.reason, "detail": outcome.detail, **facts, "components": components}


def _sizes(path: Path, job: dict[str, Any]) -> dict[str, int]:
    if path.kind != "multipath":
        return KINDS.get(path.kind).single().parameters(structure_of(path))
    inside = [validate(Path, support["path"], what="path") for support in job["supports"]]
    assert [sub_path.agent for sub_path in inside] == [sub_path.agent for sub_path in path.paths], (
        "sub-paths come in order, the main first"
    )
    structure = validate(MultipathStructure, path.structure, what="structure")
    return multipath_parameters(structure, path.classes, [structure_of(sub_path).width for sub_path in inside[1:]])


def accuracy(path: Path, seed: int, step: int) -> float:
    rate, momentum = float(path.hparams["opt_lr"]), float(path.hparams["opt_momentum"])
    luck = generator(seed, step, "luck").random()
    return 0.4 + 0.2 * (rate <= 0.01) + 0.2 * (0.75 <= momentum <= 0.9) + 0.05 * float(luck)


class Shuffled(SerialExecutor):
    """Several workers: up to so many results wait, and come back in any order."""

    def __init__(self, workers: int, evaluators: dict[str, Any]) -> None:
        super().__init__(evaluators=evaluators)
        self.workers = workers
        self._ready: list[Event] = []
        self._chance = random.Random(3)

    def poll(self, timeout: float) -> list[Event]:
        while len(self._ready) < self.workers and self.waiting():
            self._ready += [event for event in super().poll(timeout) if isinstance(event, Result)]
        self._chance.shuffle(self._ready)
        return [self._ready.pop()] if self._ready else []


def probed(payload: bytes, report: object) -> bytes:
    """An evaluator of probes: the log-loss is a function of the name of a path's task."""
    request = canonical.loads(payload)
    rows = []
    for source in request["paths"]:
        path = validate(Path, source["path"], what="path")
        loss = round(0.2 + 1.5 * float(generator(0, path.task, "probe").random()), 4)
        rows.append(TransferRow(path=path.id, loss=loss, accuracy=1 / (1 + loss), width=8, seconds=0.0))
    made = TransferTable(view=request["view"], samples=100, prior=1.6, rows=tuple(sorted(rows, key=lambda r: r.loss)))
    return write_answer(Outcome(extra={TABLE: made.model_dump(mode="json")}))


def executor_of(trainer: PathTrainer, workers: int = 1) -> Executor:
    entries: dict[str, Any] = {"path": trainer, "path_root": trainer, "path_import": trainer, ENTRY: probed}
    return SerialExecutor(evaluators=entries) if workers == 1 else Shuffled(workers, entries)


def small(samples: int = 4, size: int = 2, **other: Any) -> CycleSettings:
    return CycleSettings(samples=samples, generation_size=size, **other)


def new_system(store: Store, tasks: tuple[str, ...] = ("a", "b"), *, name: str = "zoo", **cycle: Any) -> System:
    """A system with a root and an agent for each task, none of which has run."""
    system = System.create(store, name, seed=7, settings=SystemSettings(cycle=small(**cycle)))
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
    for task in tasks:
        add(system, task)
    return system


def add(system: System, task: str, kind: str = "VitTiny") -> None:
    options = {"hyperparameters": SIZES} if kind == "VitTiny" else {}
    system.add_agent(kind, task, AgentSettings(classes=3, options=options))


def tasks_of(system: System) -> list[Any]:
    return [agent for agent in system.agents() if not agent.settings["root"]]


def told(system: System) -> dict[str, Any]:
    """All that a system is, without what chance or clocks put there: ids of runs, times, the order of events."""
    store, names = system.store, {agent.id: agent.name for agent in system.agents()}
    paths = {row.id: row for name in names for row in store.systems.paths(name)}
    rows = store.systems.individuals(paths)
    label = {individual: f"{names[row.agent_id]}/{row.number}" for individual, row in paths.items()}
    results = store.systems.evaluations_of(paths)
    parts = store.systems.components_of(paths)
    text = canonical.dumps(
        {
            label[individual]: {
                "genome": rows[individual].genome_envelope,
                "details": rows[individual].details,
                "seed": rows[individual].seed,
                "parents": rows[individual].parents,
                "results": [
                    [r.state, r.reason, {n: s.value for n, s in r.scores.items()}, r.cost, r.extra["fate"]]
                    for r in results[individual]
                ],
                "parts": [[part.role, part.id, part.digest] for part in parts[individual]],
            }
            for individual in paths
        }
        | {
            "publications": [
                [publication.seq, publication.agent, publication.cycle, label.get(publication.path_id or "")]
                for publication in store.systems.publications(system.row.id)
            ],
            "cycles": sorted(
                [names[cycle.agent_id], cycle.number, cycle.round, cycle.view, cycle.state]
                for cycle in store.systems.cycles(system_id=system.row.id)
            ),
        }
    )
    for individual, name in label.items():
        text = text.replace(individual, name)
    data: dict[str, Any] = canonical.loads(text, max_bytes=2**26)
    return data
