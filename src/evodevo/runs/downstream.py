"""Scores of trained language models on sets of questions and on texts, in the store: one event per result.

The last result of an individual on the same data, read in the same way, is the valid one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evodevo import canonical
from evodevo.errors import RunOwnedError
from evodevo.runs.archive import Individual, Run
from evodevo.storage import Store

EVENT = "downstream"


@dataclass(frozen=True)
class Reading:
    """How an individual was measured; with equal readings of equal data, results are comparable.

    Attributes:
        weights: Digest of the checkpoint.
        length: Number of tokens that the model read at once.
        stride: Number of tokens by which a window over a text went on; None for questions.
        engine: Name of the engine: evodevo or lm-eval.
    """

    weights: str
    length: int
    stride: int | None = None
    engine: str = "evodevo"

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {"weights": self.weights, "length": self.length, "stride": self.stride, "engine": self.engine}


def recorded(run: Run, individual: Individual | None = None) -> dict[str, list[dict[str, Any]]]:
    """Id of an individual -> its results in the order of their first record, as JSON: ``reading`` and ``result``.

    Args:
        run: Run to read.
        individual: One of its individuals; None = all.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for event in run.events():
        if event.type == EVENT and (individual is None or event.subject == individual.id):
            key = _key(event.fact("reading", dict), event.fact("result", lambda result: result["digest"]))
            found.setdefault(event.subject, {})[key] = event.payload
    return {name: list(results.values()) for name, results in found.items()}


@dataclass(frozen=True)
class ResultLine:
    """One result in a table.

    Attributes:
        data: Name of the set or text.
        metric: Name of the metric: accuracy, normalised accuracy, or bits per byte.
        value: Value of the metric.
        low, high: Ends of its 95 % interval; None where there is none.
        chance: Value of a uniform draw.
        amount: Number of questions or of bytes, in words.
    """

    data: str
    metric: str
    value: float
    low: float | None
    high: float | None
    chance: float
    amount: str

    def words(self) -> str:
        """The value with its interval."""
        interval = "" if self.low is None or self.high is None else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{interval}"


def lines(results: Sequence[Mapping[str, Any]]) -> list[ResultLine]:
    """The main number of each result that ``recorded`` gave for an individual."""
    found = []
    for payload in results:
        result = payload["result"]
        if "text" in result:
            numbers = result["bits_per_byte"], result["low"], result["high"]
            found.append(ResultLine(result["text"], "bits/byte", *numbers, 8.0, f"{result['bytes']:,} bytes"))
        else:
            score = result["metrics"][result["main"]]
            numbers = score["value"], score["low"], score["high"]
            count = f"{score['count']:,} questions"
            found.append(ResultLine(result["task"], result["main"], *numbers, result["chance"], count))
    return found


def find_recorded(individual: Individual, reading: Reading, digest: str) -> Mapping[str, Any] | None:
    """The result of this reading of the data with this digest; None where there is none."""
    wanted = _key(reading.to_json(), digest)
    for payload in recorded(individual.run, individual).get(individual.id, []):
        if _key(payload["reading"], payload["result"]["digest"]) == wanted:
            result: Mapping[str, Any] = payload["result"]
            return result
    return None


def record(individual: Individual, reading: Reading, result: Mapping[str, Any]) -> str | None:
    """Keep a result in the store of an individual.

    Args:
        individual: Individual that was measured.
        reading: Conditions of the measurement.
        result: JSON with ``digest``, the digest of the data.

    Returns:
        None, or the reason why it could not be kept: the run is open in another process, or the store cannot be
        written.
    """
    run = individual.run
    try:
        with Store.open(run.archive.folder, create=False) as store:
            lease = store.acquire(run.id, patience=0.0)
            try:
                store.add_event(lease, EVENT, individual.id, {"reading": reading.to_json(), "result": dict(result)})
            finally:
                store.release(lease)
    except RunOwnedError:
        return f"run {run.id} is open in another process"
    except OSError as error:
        return f"the store cannot be written ({error.strerror or error})"
    return None


def _key(reading: Mapping[str, Any], digest: str) -> str:
    return canonical.digest([dict(reading), digest])
