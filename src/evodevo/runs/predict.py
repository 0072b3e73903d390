"""Answers of a trained network of a store to a user's own samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evodevo.objectives.probabilities import softmax
from evodevo.runs.answers import OutputPrediction, Prediction, continues_texts
from evodevo.tasks.base import OutputSpec, SampleTask
from evodevo.tasks.inputs import Batch

if TYPE_CHECKING:
    from evodevo.runs.archive import Archive, Individual

AT_ONCE = 64


class Predictor:
    """The answers of one individual.

    Args:
        individual: a trained network of samples that answers with classes or labels.
        cache_folder: folder of prepared data; None is the user's.
        device: auto, cpu, cuda, cuda:N.

    Raises:
        UsageError: a network that continues texts.
        NotFoundError: no weights were kept.
    """

    def __init__(self, individual: Individual, cache_folder: Path | None = None, device: str = "cpu") -> None:
        from evodevo.networks.saved import load_network
        from evodevo.training.precision import decide

        network, self._about = load_network(individual.run.archive.store.blobs, individual.weights())
        self._outputs = [spec for spec in network.output_specs if spec.kind != "tokens"]
        if not self._outputs:
            raise continues_texts(individual.id)
        self._precision = decide(device)
        self._network = network.to(self._precision.device)
        self._cache_folder = cache_folder
        self.individual = individual

    @cached_property
    def task(self) -> SampleTask:
        """The task that it was trained on. Raises DataError where the data are gone, since they define vocabulary."""
        from evodevo.networks.saved import reopen_task

        return reopen_task(self._about, self._cache_folder)

    def sample(self, values: Mapping[str, str]) -> Prediction:
        """The answers to one sample.

        Args:
            values: input -> a text, the path of an image, or numbers with commas; what is left out is missing.

        Raises:
            UsageError: an unknown input, nothing at all, or an input that this network cannot do without.
            DataError: a file that cannot be read.
        """
        return self._predict(self.task.read_sample(values))[0]

    def rows(self, path: str | Path) -> Iterator[Prediction]:
        """The answers to all rows of a table with the columns that the task reads; it needs no labels.

        Raises:
            UsageError: a task that reads no tables, or an input that this network cannot do without.
            DataError: a file that cannot be read.
        """
        for batch in self.task.read_rows(Path(path), AT_ONCE):
            yield from self._predict(batch)

    def _predict(self, batch: Batch) -> list[Prediction]:
        import torch

        placed: Any = self._precision.place(batch)
        weights = executed = np.zeros((0, 0))
        with torch.no_grad():
            explained = self._network.explain(placed)
        logits, ids = explained.answers, explained.parts
        if explained.weights is not None and explained.executed is not None:
            weights, executed = (rows.double().cpu().numpy() for rows in (explained.weights, explained.executed))
        each = {spec.name: _probabilities(spec, logits[spec.name].double().cpu().numpy()) for spec in self._outputs}
        inputs = [spec.name for spec in self.task.inputs]
        return [
            Prediction(
                answers={spec.name: _answer(spec, each[spec.name][row]) for spec in self._outputs},
                absent=tuple(
                    name for name in inputs if f"{name}/present" in batch and not batch[f"{name}/present"][row]
                ),
                weights={name: float(weights[row, place]) for place, name in enumerate(ids)},
                executed=tuple(name for place, name in enumerate(ids) if executed[row, place]),
            )
            for row in range(len(each[self._outputs[0].name]))
        ]


def best_trained(archive: Archive, name: str) -> Individual:
    """The individual that answers for a run, or the individual of that name.

    Which one that is: ``Run.best``.

    Args:
        archive: archive of the store.
        name: a beginning of an id of either, or ``last``.

    Raises:
        NotFoundError: nothing of that name, or a run without a finished individual.
    """
    if name != "last" and archive.store.find(name).kind == "individual":
        return archive.individual(name)
    return archive.run(name).best()


def _answer(spec: OutputSpec, probabilities: NDArray[np.float64]) -> OutputPrediction:
    names = spec.names or tuple(map(str, range(spec.size)))
    return OutputPrediction(spec.kind, dict(zip(names, map(float, probabilities), strict=True)))


def _probabilities(spec: OutputSpec, logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B, size)."""
    from evodevo.objectives.probabilities import sigmoid

    return softmax(logits) if spec.kind == "class" else sigmoid(logits)
