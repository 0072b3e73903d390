"""A system's answers to a user's own samples: the best path of a task, rebuilt from the store.

Source: docs/spec/munet.md#beyond-the-notebooks. The path is chosen by its validation accuracy; the weights of every
component are read by their digest, which their bytes are checked against.

Legend: B samples, C classes, P paths of a multipath model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import NotFoundError, UsageError, quoted_list
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.run.samples import OwnSamples, Sample, SampleReader, own_input
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.registry import enable_packages
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.storage.systems.base import SystemRow
from evodevo.tasks.inputs import InputSpec

AT_ONCE = 64
NEGLIGIBLE = 1e-3
"""A support is not run for a sample that gives it a smaller weight (docs/spec/munet.md#caching-and-skipping)."""


@dataclass(frozen=True)
class SubpathUse:
    """A path inside a multipath model, and one sample.

    Attributes:
        path: "agent/number", the main one first.
        weight: weight from the router, 0 to 1; None without a router: each path counts whole.
        run: whether it was run.
    """

    path: str
    weight: float | None
    run: bool


@dataclass(frozen=True)
class SystemAnswer:
    """The answer to one sample.

    Attributes:
        probabilities: class -> its probability, in the task's order.
        paths: for a multipath model, use and weight of each path.
    """

    probabilities: Mapping[str, float]
    paths: tuple[SubpathUse, ...] = ()

    @property
    def chosen(self) -> str:
        """The likeliest class."""
        return max(self.probabilities, key=lambda name: self.probabilities[name])

    def likeliest(self, count: int) -> list[tuple[str, float]]:
        """So many classes with their probabilities, the likeliest first; of equal ones the task's order."""
        return sorted(self.probabilities.items(), key=lambda pair: -pair[1])[:count]

    def to_json(self) -> dict[str, Any]:
        """As ``evodevo predict --json`` gives it."""
        paths = [{"path": path.path, "weight": path.weight, "run": path.run} for path in self.paths]
        return {"chosen": self.chosen, "probabilities": dict(self.probabilities), "paths": paths}


class PathPredictor:
    """The predictions of one path.

    Args:
        system: system of the path.
        known: the path; it answers a task.
        device: auto, cpu, cuda, cuda:N.
        skip_below: supports of a multipath model are not run for samples that give them a smaller weight; the path's
            own setting is used where it is larger. 0 runs all.
        cache_folder: folder of prepared data; None is the user's.

    Attributes:
        classes: names of the classes, in the order of the logits.
        named: whether these are the task's names; else they are numbers, since none were recorded.
        built: the path with its weights.

    Raises:
        UsageError: a device that is not there.
        NotFoundError, StoreDamagedError: a component is gone or damaged.
    """

    def __init__(
        self,
        system: System,
        known: PublishedPath,
        *,
        device: str = "cpu",
        skip_below: float = NEGLIGIBLE,
        cache_folder: Path | None = None,
    ) -> None:
        from evodevo.training.precision import decide

        self.system, self.known = system, known
        agent = system.agent(known.path.agent)
        self.task, self.agent = agent.task, agent.name
        settings = agent_settings(agent)
        self.precision = decide(device)
        self.built = _build(system, known, self.precision)
        if not 0 <= skip_below < 1:
            raise UsageError(f"supports are skipped below a weight from 0 up to 1; got {skip_below}.")
        skip = getattr(self.built.model, "skip_below", None)  # a path of one stream has no supports
        if callable(skip):
            skip(skip_below)
        self.samples = SampleReader(settings, self._own_input(), cache_folder)
        names = self.samples.class_names()
        self.named = len(names) == known.path.classes
        self.classes = names if self.named else tuple(map(str, range(known.path.classes)))

    def predict(self, samples: Sequence[Sample]) -> list[SystemAnswer]:
        """The answers to samples, in order.

        Args:
            samples: image files of any size and colour, images as arrays of bytes, or texts; see ``Sample``.

        Raises:
            UsageError: something that is no sample of this task.
            DataError: a file that cannot be read.
        """
        return list(self.answers(samples))

    def answers(self, samples: Iterable[Sample]) -> Iterator[SystemAnswer]:
        """As ``predict``, for any number of samples, a few at a time."""
        waiting = iter(samples)
        while some := list(islice(waiting, AT_ONCE)):
            yield from self._answer(some)

    def logits(self, batch: Mapping[str, Any]) -> NDArray[np.float32]:
        """(B, C), of samples as the task hands them out: input -> (B, …)."""
        values: NDArray[np.float32] = self._ask(batch)[0]
        return values

    def _answer(self, samples: Sequence[Sample]) -> Iterator[SystemAnswer]:
        from evodevo.objectives.probabilities import softmax

        logits, weights, ran = self._ask(self.samples.read(samples))
        probabilities = softmax(logits.astype(np.float64))
        inside = [f"{path.agent}/{path.number}" for path in self.known.path.paths]
        for row, each in enumerate(probabilities):
            paths = tuple(
                SubpathUse(path, None if weights is None else float(weights[row, place]), bool(ran[row, place]))
                for place, path in enumerate(inside)
                if ran is not None
            )
            yield SystemAnswer(dict(zip(self.classes, map(float, each), strict=True)), paths)

    def _ask(self, batch: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Logits (B, C); of a multipath model weights (B, P), None without a router, and which paths ran (B, P)."""
        import torch

        from evodevo.multitask.paths.frozen import route
        from evodevo.multitask.training.values import DataValues

        task = OwnSamples(self.samples.inputs, batch)
        count = task.count("test")
        read = self.built.reader(task, "test", DataValues(), 0)(np.arange(count), None)
        model = self.built.model
        with torch.no_grad():
            routed = route(model, read)
        weights = routed.weights.float().cpu().numpy() if routed.weights is not None and routed.by_router else None
        ran = None if routed.ran is None else routed.ran.cpu().numpy()
        return routed.logits.float().cpu().numpy(), weights, ran

    def _own_input(self) -> InputSpec | None:
        """Input that the path, or the main path in it, reads."""
        from evodevo.multitask.paths.kinds import structure_of

        path = self.known.path
        if path.paths:
            path = self.system.library.by_number(path.paths[0].agent, path.paths[0].number).path
        return own_input(structure_of(path).input_spec)


def open_answerer(
    store: Store,
    system: str,
    task: str | None,
    agent: str | None = None,
    device: str = "cpu",
    *,
    skip_below: float = NEGLIGIBLE,
    cache_folder: Path | None = None,
) -> PathPredictor:
    """The predictor of a task of a system: the path with the best validation accuracy, or an agent's.

    Args:
        store: store of the system.
        system: its name, id, or the beginning of one.
        task: name of the task; None raises an error that lists the tasks.
        agent: agent whose path is used instead of the best one.
        device, skip_below, cache_folder: see ``PathPredictor``.

    Raises:
        UsageError: no task is named.
        NotFoundError: no such system, task or agent, or no path was published for it yet.
        StoreDamagedError: a component is gone or damaged.
    """
    opened = System.open(store, system)
    enable_packages(opened.settings.packages)
    known = chosen_path(opened, task, agent)
    return PathPredictor(opened, known, device=device, skip_below=skip_below, cache_folder=cache_folder)


def chosen_path(system: System, task: str | None, agent: str | None = None) -> PublishedPath:
    """See ``open_answerer``."""
    offers = [offer.path for offer in system.view().offers.values() if offer.path.classes]
    tasks = sorted({offer.task for offer in offers})
    if task is None:
        raise UsageError(
            f"name a task of system {system.row.name!r} with --task: {quoted_list(tasks) or _none(system)}."
        )
    if task not in tasks:
        withdrawn = system.withdrawn()
        waiting = {row.task for row in system.agents() if not row.settings.get("root") and row.id not in withdrawn}
        if task in waiting:
            raise NotFoundError(
                f"nobody has published a path for task {task!r} yet. Next: evodevo extend run {system.row.name}"
            )
        answered = quoted_list(tasks) or _none(system)
        raise NotFoundError(f"system {system.row.name!r} answers no task {task!r}; it answers {answered}.")
    names = sorted(offer.agent for offer in offers if offer.task == task)
    if agent is not None and agent not in names:
        raise NotFoundError(f"no agent {agent!r} offers a path for task {task!r}; these do: {quoted_list(names)}.")
    return system.best(task, agent=agent)


def find_system(store: Store, name: str) -> SystemRow | None:
    """The system that a word on the command line means; None where it means a run, an individual, or nothing.

    A system's whole name or id comes first, then whatever id begins so, then the beginning of a system's name.

    Raises:
        UsageError: several systems' names begin so.
    """
    systems = store.systems.systems()
    if any(name in (system.name, system.id) for system in systems):
        return store.systems.find_system(name)
    try:
        reference = store.find(name)
    except NotFoundError:
        begins = [system for system in systems if name and system.name.startswith(name)]
        return store.systems.find_system(name) if begins else None
    except UsageError:
        return None  # several ids begin so, or none was given: the search for runs reports it
    return next((system for system in systems if system.id == reference.id), None)


def _none(system: System) -> str:
    return f"none yet (next: evodevo extend run {system.row.name})"


def _build(system: System, known: PublishedPath, precision: Any) -> Any:
    """The path with its weights, in evaluation; ``paths.built.BuiltPath``."""
    from evodevo.multitask.evaluate_settings import PathRequest
    from evodevo.multitask.paths.kinds import KINDS

    pool = system.store.blobs
    if pool.address is None:
        raise UsageError("a store in memory keeps no weights; paths predict in a store on disk.")
    # Representations of a user's samples by frozen paths are private, and are not kept.
    more = {"blobs": pool.address, "training": {"representations": False}}
    request = validate(PathRequest, {**system.library.request(known), **more}, what="request")
    built = KINDS.get(known.path.kind).build(request, pool, OwnSamples((), {}), precision)
    built.model.eval()
    return built
