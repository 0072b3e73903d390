"""The k-hop pointer task: follow arrows between nodes k times (docs/spec/h_model.md#the-pointer-pilot).

A sample is a random map node -> node, a start and a number of hops; the answer is the node at the end of the walk. The
arrows are in random order, so that a position does not determine its node: each hop has to find the arrow that begins
where the previous one ended.

Shapes: B samples, n nodes, L = n + 2 tokens: n arrows, then the start, then the hops.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import SPLITS, Batch, InputSpec, OutputSpec, SampleTask, Split, check_key
from evodevo.tasks.generated import RULE, SplitSizes, belongs, mix

_VERSION = 1
_DRAWN_AT_ONCE = 1 << 15


class PointerSettings(Settings):
    """Sizes of the maps, numbers of hops, numbers of samples."""

    nodes: int = Field(default=6, ge=4, le=64, description="number of nodes in the map")
    hops_min: int = Field(default=1, ge=0, le=64, description="number of hops in the easiest samples")
    hops_max: int = Field(default=4, ge=1, le=64, description="number of hops in the hardest samples")
    samples: SplitSizes = SplitSizes(train=100_000, validation=2_000, test=2_000)
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the generator")

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.hops_min > self.hops_max:
            raise ValueError(f"hops_min is {self.hops_min} and hops_max {self.hops_max}; the smaller comes first")
        return self


class PointerTask(SampleTask):
    """Walks of k hops, equally many of each k in expectation.

    One token is one arrow "a -> b" (n * n ids), one start (n ids) or one number of hops. No map is in two splits: the
    split is a function of the map. Samples are made when the task is opened, a hundred thousand in about 0.1 s.

    Args:
        settings: Settings of the task.
    """

    name: ClassVar[str] = "pointer"
    settings_class: ClassVar[type[Settings]] = PointerSettings

    def __init__(self, settings: PointerSettings) -> None:
        self.settings = settings
        self.key = canonical.digest({"task": self.name, "version": _VERSION, "settings": settings.model_dump()})
        self.digest = self.key
        nodes = settings.nodes
        self.hops = tuple(range(settings.hops_min, settings.hops_max + 1))
        vocabulary = nodes * nodes + nodes + len(self.hops)
        self.inputs = (InputSpec("text", "tokens", length=nodes + 2, vocabulary=vocabulary),)
        self.outputs = (OutputSpec("answer", "class", nodes, names=tuple(str(node) for node in range(nodes))),)
        self.group_names = {"hops": tuple(str(count) for count in self.hops)}
        self._samples = {split: self._draw(split) for split in SPLITS}

    @classmethod
    def open(cls, settings: PointerSettings, cache_folder: Path | None = None, key: str | None = None) -> PointerTask:
        task = cls(settings)
        check_key(task.key, key, "the generator of the pointer task")
        return task

    def count(self, split: Split) -> int:
        return self.settings.samples.of(split)

    def fetch(self, split: Split, indices: NDArray[np.int64]) -> Batch:
        nodes = self.settings.nodes
        sources, targets, start, hops = (part[indices].astype(np.int64) for part in self._samples[split])
        arrows = sources * nodes + np.take_along_axis(targets, sources, axis=1)
        first = nodes * nodes
        text = np.column_stack([arrows, first + start, first + nodes + hops - self.hops[0]])
        return {"text": text, "answer/target": walk(targets, start, hops)}

    def groups(self, split: Split, indices: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {"hops": self._samples[split][3][indices].astype(np.int64) - self.hops[0]}

    def show(self, split: Split, index: int) -> dict[str, str]:
        batch = self.fetch(split, np.asarray([index]))
        return {"text": self.text(batch["text"][0]), "answer": str(int(batch["answer/target"][0]))}

    def text(self, tokens: NDArray[np.int64]) -> str:
        """Tokens (L,) as text: ``2->0 0->1 1->1 3->2 from 3, 2 hops``."""
        nodes = self.settings.nodes
        arrows = " ".join(f"{token // nodes}->{token % nodes}" for token in tokens[:-2].tolist())
        start, hops = int(tokens[-2]) - nodes * nodes, int(tokens[-1]) - nodes * nodes - nodes + self.hops[0]
        return f"{arrows} from {start}, {hops} hop{'' if hops == 1 else 's'}"

    def baselines(self, split: Split) -> dict[str, float]:
        """Accuracy of shortcuts: the commonest answer, the node with most arrows into it, the best single k."""
        _, targets, start, hops = (part.astype(np.int64) for part in self._samples[split])
        answers = walk(targets, start, hops)
        indegree = (targets[:, :, None] == np.arange(self.settings.nodes)).sum(axis=1)
        fixed = [float((walk(targets, start, np.full_like(hops, count)) == answers).mean()) for count in self.hops]
        return {
            "majority": float(np.bincount(answers).max() / len(answers)),
            "most pointed at": float((indegree.argmax(axis=1) == answers).mean()),
            "fixed hops": max(fixed),
        }

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "digest": self.digest,
            "key": self.key,
            "source": "generated",
            "samples": {split: self.count(split) for split in SPLITS},
            "split_rule": f"{RULE} (of the map)",
            "encoding": "one token per arrow in random order, then the start, then the hops",
            "length": self.inputs[0].length,
            "vocabulary": self.inputs[0].vocabulary,
        }

    def _draw(self, split: Split) -> tuple[NDArray[np.uint8], ...]:
        """Order of the arrows (count, n), map (count, n), start (count,), hops (count,)."""
        nodes, count = self.settings.nodes, self.count(split)
        rng = generator(self.settings.seed, split, "pointer")
        maps: list[NDArray[np.uint8]] = []
        while sum(map(len, maps)) < count:
            drawn = rng.integers(0, nodes, (_DRAWN_AT_ONCE, nodes), dtype=np.uint8)
            maps.append(drawn[belongs(fingerprint(drawn), split)])
        order = np.argsort(rng.random((count, nodes)), axis=1).astype(np.uint8)
        start = rng.integers(0, nodes, count, dtype=np.uint8)
        hops = rng.integers(self.hops[0], self.hops[-1] + 1, count, dtype=np.uint8)
        return order, np.concatenate(maps)[:count], start, hops


def walk(targets: NDArray[np.int64], start: NDArray[np.int64], hops: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last nodes of walks.

    Args:
        targets: Successor of each node, (B, n).
        start: First node of each walk, (B,).
        hops: Number of arrows to follow, (B,).

    Returns:
        Node reached from ``start`` after ``hops`` arrows, (B,).
    """
    here = start.copy()
    rows = np.arange(len(start))
    for step in range(int(hops.max(initial=0))):
        here = np.where(step < hops, targets[rows, here], here)
    return here


def fingerprint(maps: NDArray[Any]) -> NDArray[np.uint64]:
    """A fingerprint of each map (B, n), independent of the order in which its arrows are written. Shape (B,)."""
    nodes = maps.shape[1]
    arrows = np.arange(nodes, dtype=np.uint64) * np.uint64(nodes) + maps.astype(np.uint64)
    total: NDArray[np.uint64] = mix(arrows).sum(axis=1, dtype=np.uint64)
    return total
