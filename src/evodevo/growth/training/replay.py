"""Replay of samples: some that were trained on before are used again after an edit (Architect Thyself eq. 88).

Source: docs/spec/architect_thyself.md#sample-replay.

A memory of places in the task, not of tensors: balanced over classes and over which modalities are there, and uniform
within each such stratum over what was seen (class-balancing reservoir sampling, Chrysakis & Moens 2020). Every draw is
keyed by (seed, step), so that a training that was killed and resumed replays the same samples.

Legend: B samples of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.randomness import generator
from evodevo.settings import Settings, validate
from evodevo.tasks.base import OutputSpec, SampleTask
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import LossFunction, model_loss

AGAIN = "again/"
"""Prefix of the names of a batch's replayed arrays."""


class _Held(Settings):
    """The memory as plain data: indices held and samples seen by stratum, and the strata that once had the most."""

    next_step: int = Field(default=0, ge=0)
    places: dict[str, list[int]] = Field(default_factory=dict)
    seen: dict[str, int] = Field(default_factory=dict)
    full: list[str] = Field(default_factory=list)


class SampleReplay:
    """Memory of the samples that were trained on.

    While there is room everything is kept. Then a sample of a stratum that never had the most replaces one of a stratum
    that has; within a stratum that had, all samples seen so far are equally likely to be held. A sample that is held
    already is not counted again.

    Args:
        capacity: Largest number of indices held (N_R), at least 1.
        seed: Seed of every draw.
        state: An earlier ``state``; changed in place, so that ``Bench.state`` may hold it. None begins empty.

    Attributes:
        state: The whole memory as JSON data.

    Raises:
        UsageError: A capacity below 1, or a state that does not fit this capacity.
    """

    def __init__(self, capacity: int, *, seed: int, state: dict[str, Any] | None = None) -> None:
        if capacity < 1:
            raise UsageError("a replay needs room for one sample at least; leave it out instead.")
        self.capacity = capacity
        self.seed = seed
        self.state: dict[str, Any] = {} if state is None else state
        held = validate(_Held, self.state, what="the memory of samples")
        if sum(map(len, held.places.values())) > capacity or held.places.keys() != held.seen.keys():
            raise UsageError(f"this memory of samples is none of a capacity of {capacity}.")
        self.state.update(held.model_dump(mode="json"))
        self._places: dict[str, list[int]] = self.state["places"]
        self._seen: dict[str, int] = self.state["seen"]
        self._full: list[str] = self.state["full"]
        self._held = {place for places in self._places.values() for place in places}

    def __len__(self) -> int:
        return len(self._held)

    def strata(self) -> dict[str, tuple[int, ...]]:
        """Indices that are held, by stratum."""
        return {name: tuple(places) for name, places in self._places.items() if places}

    def see(self, step: int, places: Sequence[int] | NDArray[np.int64], names: Sequence[str]) -> None:
        """Add the samples of a step with their strata; a step before the latest one is ignored."""
        if step < self.state["next_step"]:
            return
        rng = generator(self.seed, step, "samples to remember")
        for place, name in zip(places, names, strict=True):
            self._offer(int(place), name, rng)
        self.state["next_step"] = step + 1

    def _offer(self, place: int, name: str, rng: np.random.Generator) -> None:
        if place in self._held:
            return
        mine = self._places.setdefault(name, [])
        self._seen[name] = self._seen.get(name, 0) + 1
        if len(self._held) < self.capacity:
            mine.append(place)
            self._held.add(place)
            return
        most = max(map(len, self._places.values()))
        # Sorted, because canonical JSON returns names in another order.
        largest = sorted(stratum for stratum, places in self._places.items() if len(places) == most)
        self._full.extend(stratum for stratum in largest if stratum not in self._full)
        if name not in self._full:
            losers = self._places[largest[rng.integers(len(largest))]]
            self._held.remove(losers.pop(rng.integers(len(losers))))
            mine.append(place)
        elif rng.random() < len(mine) / self._seen[name]:
            # Reservoir sampling within the stratum.
            number = rng.integers(len(mine))
            self._held.remove(mine[number])
            mine[number] = place
        else:
            return
        self._held.add(place)

    def draw(self, step: int, size: int) -> NDArray[np.int64]:
        """Indices to replay at a step, (size,): as many of each stratum, none twice before all of its others.

        Raises:
            UsageError: The memory is empty.
        """
        if not self._held:
            raise UsageError("nothing is remembered yet; replay begins after the first step.")
        rng = generator(self.seed, step, "samples again")
        having = sorted(name for name, places in self._places.items() if places)
        shuffled = [rng.permutation(self._places[having[number]]) for number in rng.permutation(len(having))]
        indices: list[int] = []
        for turn in count():
            indices += [int(places[turn % len(places)]) for places in shuffled]
            if len(indices) >= size:
                break
        return np.asarray(indices[:size], dtype=np.int64)


def strata_of(batch: Batch, outputs: Sequence[OutputSpec]) -> list[str]:
    """The stratum of each of B samples: its classes (of labels the first), and the modalities that it lacks."""
    parts: list[list[str]] = []
    for spec in outputs:
        target = batch.get(f"{spec.name}/target")
        if target is None or spec.kind == "tokens":
            continue
        if spec.kind == "labels":
            target = np.where((target == 1).any(1), (target == 1).argmax(1), -1)
        parts.append([f"{spec.name}={int(value)}" for value in target])
    for key in sorted(batch):
        name, _, what = key.rpartition("/")
        if what == "present":
            parts.append(["" if there else f"no {name}" for there in batch[key]])
    size = len(next(iter(batch.values())))
    return [" ".join(filter(None, words)) for words in zip(*parts, strict=True)] if parts else [""] * size


class ReplayedBatches:
    """Batches of a training, ``batch_at`` of ``training.loop.train``: kept in memory, and replayed after an edit.

    Args:
        task: Task with the training samples.
        replay: Memory of samples.
        seed: Seed of the training.
        size: Number of samples in a step, and of replayed ones.
        steps: Number of steps with replayed samples after each edit (R).
        first: Number of the batch of step 0: earlier ones have been trained on.
    """

    def __init__(
        self, task: SampleTask, replay: SampleReplay, *, seed: int, size: int, steps: int, first: int = 0
    ) -> None:
        self.task = task
        self.replay = replay
        self.seed = seed
        self.size = size
        self.steps = steps
        self.first = first
        self._window = range(0)

    def edited(self, step: int, steps: int | None = None) -> None:
        """Replay in the next steps after an edit at this step; ``steps`` replaces their usual number."""
        self._window = range(step, step + (self.steps if steps is None else steps))

    def __call__(self, step: int) -> Batch:
        """The samples of a step; names of replayed arrays begin with ``AGAIN``."""
        places = self.task.draw("train", self.seed, step + self.first, self.size)
        batch = self.task.fetch("train", places)
        again: Batch = {}
        if step in self._window and len(self.replay):
            again = self.task.fetch("train", self.replay.draw(step, self.size))
        self.replay.see(step, places, strata_of(batch, self.task.outputs))
        return {**batch, **{AGAIN + name: array for name, array in again.items()}}


def with_replay(weight: float, loss_function: LossFunction = model_loss) -> LossFunction:
    """A loss plus ``weight`` times the task's loss on replayed samples, where a batch has some (eq. 88).

    They count in no other term and in no statistic of a ``Network``; its ``terms`` hold "replay", weight included.
    """

    def loss_of(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        now = {name: tensor for name, tensor in batch.items() if not name.startswith(AGAIN)}
        loss = loss_function(model, now)
        if len(now) == len(batch) or not weight:
            return loss
        again = {name.removeprefix(AGAIN): tensor for name, tensor in batch.items() if name.startswith(AGAIN)}
        network: Any = model
        replayed: Tensor = weight * network.answers_loss(network(again), again)
        network.terms = {**network.terms, "replay": replayed.detach()}
        return loss + replayed

    return loss_of
