"""Quality of a network's answers on samples that it was not trained on: numbers per output and per group of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.experiments.flop_counter import counting
from evodevo.networks.base import Network
from evodevo.networks.outputs import answer_losses
from evodevo.objectives.calibration_error import Reliability
from evodevo.randomness import generator
from evodevo.tasks.base import NO_TARGET, OutputSpec, SampleTask, Split
from evodevo.tasks.inputs import Batch
from evodevo.training.metrics import Judgement, judge
from evodevo.training.precision import Precision


@dataclass(frozen=True)
class NetworkMeasurement:
    """The result of a measurement. Numbers may be NaN where there was no target.

    Attributes:
        loss: mean over outputs of their mean loss, in nats.
        accuracy: mean over outputs; of labels the micro F1; of tokens that hold an answer, the share of answers.
        outputs: output -> metric -> value; of classes and labels those of ``classification.Judgement`` too.
        reasons: output -> metric -> reason why it is not defined, or what it leaves out.
        thresholds: output -> thresholds that are best for F1 on these samples.
        reliability: output -> share of right answers by confidence.
        right: (samples,) share of each sample that was answered rightly, 0 to 1, the mean over outputs; NaN without a
            target.
        groups: group -> value -> {"accuracy", "samples"}, the accuracy as above but per sample.
        executed_flops: mean per sample, where it was counted.
        parameters: number of all trainable numbers.
        samples: number of samples.
    """

    loss: float
    accuracy: float
    outputs: dict[str, dict[str, float]]
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    thresholds: dict[str, tuple[float, ...]] = field(default_factory=dict)
    reliability: dict[str, Reliability] = field(default_factory=dict)
    right: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    groups: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    executed_flops: float | None = None
    parameters: int = 0
    samples: int = 0

    @property
    def error(self) -> float:
        """1 - accuracy."""
        return 1.0 - self.accuracy

    def metric(self, name: str) -> float:
        """The mean of a metric over the outputs for which it is defined; NaN where it is for none."""
        return _mean([metrics.get(name, math.nan) for metrics in self.outputs.values()])

    def why(self, name: str) -> str:
        """Reason why a metric is not defined: "answer: the split has one class"; empty where it is defined."""
        sentences = [f"{output}: {reasons[name]}" for output, reasons in self.reasons.items() if name in reasons]
        return "; ".join(sentences) or ("" if math.isfinite(self.metric(name)) else "no output has it")

    def to_json(self) -> dict[str, Any]:
        """JSON: what is not finite is left out."""
        whole = {
            "loss": self.loss,
            "accuracy": self.accuracy,
            "outputs": self.outputs,
            "reasons": {name: reasons for name, reasons in self.reasons.items() if reasons},
            "thresholds": {name: list(values) for name, values in self.thresholds.items() if values},
            "reliability": {name: curve.to_json() for name, curve in self.reliability.items()},
            "groups": self.groups,
            "executed_flops": self.executed_flops,
            "samples": self.samples,
        }
        data: dict[str, Any] = _finite(whole)
        return data


def places(task: SampleTask, split: Split, most: int | None) -> NDArray[np.int64]:
    """Indices of the measured samples of a split: all, or ``most`` of them, the same ones at every call."""
    count = task.count(split)
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(generator(0, split, "measured samples").permutation(count)[:most])


def measure(
    network: Network,
    task: SampleTask,
    split: Split,
    chosen: NDArray[np.int64],
    *,
    batch_size: int,
    precision: Precision,
    shuffle: Sequence[str] = (),
    count_flops: bool = False,
    thresholds: Mapping[str, Sequence[float]] | None = None,
) -> NetworkMeasurement:
    """Measure a network; it comes back in the mode (training or not) in which it was.

    Args:
        network: network on the device of ``precision``.
        task, split, chosen: task, split and indices of the samples.
        batch_size: number of samples at a time.
        precision: device and number format.
        shuffle: inputs whose samples are exchanged with each other, so that they carry no information about the answer.
        count_flops: whether the FLOPs that were really computed are counted; the measurement takes longer then.
        thresholds: output -> thresholds tuned on other samples, for the metrics that end in ``_tuned``.
    """
    was_training = network.training
    network.eval()
    tallies = [_Tally(spec) for spec in network.output_specs]
    order = generator(0, split, "shuffled inputs").permutation(chosen)
    counter = counting(network) if count_flops else nullcontext()
    with torch.no_grad(), counter as counted:
        for start in range(0, len(chosen), batch_size):
            batch = dict(task.fetch(split, chosen[start : start + batch_size]))
            if shuffle:
                batch |= _inputs(task.fetch(split, order[start : start + batch_size]), shuffle)
            placed = precision.place(batch)
            assert isinstance(placed, dict), "the batch is a mapping"
            with precision.autocast():
                answers = network(placed)
            for tally in tallies:
                name = tally.spec.name
                tally.add(answers[name], placed[f"{name}/target"], placed.get(f"{name}/position"))
    network.train(was_training)
    known = thresholds or {}
    members = task.groups(split, chosen)
    judged = {tally.spec.name: tally.judge(known.get(tally.spec.name, ()), members) for tally in tallies}
    outputs = {tally.spec.name: {**judged[tally.spec.name].metrics, **tally.metrics()} for tally in tallies}
    per_sample = _mean_of_known(np.stack([tally.per_sample() for tally in tallies]))
    _add_bits(outputs, tallies, task, split, chosen)
    return NetworkMeasurement(
        loss=_mean([metrics["loss"] for metrics in outputs.values()]),
        accuracy=_mean([outputs[tally.spec.name].get(tally.main, math.nan) for tally in tallies]),
        outputs=outputs,
        reasons={name: judgement.reasons for name, judgement in judged.items()},
        thresholds={name: judgement.thresholds for name, judgement in judged.items()},
        reliability={
            name: judgement.reliability for name, judgement in judged.items() if judgement.reliability is not None
        },
        right=per_sample,
        groups=_by_group(task, members, per_sample),
        executed_flops=None if counted is None else counted.flops / max(1, len(chosen)),
        parameters=sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad),
        samples=len(chosen),
    )


class _Tally:
    """Counts of one output over batches."""

    def __init__(self, spec: OutputSpec) -> None:
        self.spec = spec
        self.loss = 0.0
        self.targets = 0
        self.hits = 0.0
        self.has_positions = False
        self.samples: list[Tensor] = []
        self.answers: list[tuple[Tensor, Tensor]] = []

    def add(self, logits: Tensor, target: Tensor, position: Tensor | None) -> None:
        """Count a batch. Where ``position`` (B,) is given, the token there is the sample's answer."""
        if self.spec.kind != "tokens":
            self.answers.append((logits.double().cpu(), target.cpu()))
        known = ~target.isnan() if self.spec.kind == "labels" else target != NO_TARGET
        self.loss += float(answer_losses(self.spec, logits, target).double().sum())
        self.targets += int(known.sum())
        if self.spec.kind == "labels":
            chosen, wanted = (logits > 0) & known, (target > 0.5) & known
            right = ((chosen == wanted) | ~known).all(1)
            self.samples.append(torch.where(known.any(1), right.float(), torch.nan).cpu())
            return
        right = (logits.argmax(-1) == target) & known
        self.hits += float(right.sum())
        if position is not None:
            self.has_positions = True
            self.samples.append(right.gather(1, position[:, None]).squeeze(1).float().cpu())
            return
        share = right if right.ndim == 1 else right.sum(1) / known.sum(1).clamp(min=1)
        there = known if known.ndim == 1 else known.any(1)
        self.samples.append(torch.where(there, share.float(), torch.nan).cpu())

    @property
    def main(self) -> str:
        """Name of the metric that represents the output in means over outputs."""
        if self.has_positions:
            return "answer"
        return "f1_micro" if self.spec.kind == "labels" else "accuracy"

    def metrics(self) -> dict[str, float]:
        """Metrics that are counted for every kind of output."""
        loss = self.loss / self.targets if self.targets else math.nan
        if self.spec.kind == "labels":
            return {"loss": loss}
        answer = {"answer": _mean(self.per_sample().tolist())} if self.has_positions else {}
        return {"accuracy": self.hits / self.targets if self.targets else math.nan, "loss": loss, **answer}

    def judge(self, thresholds: Sequence[float], groups: Mapping[str, NDArray[np.int64]]) -> Judgement:
        """Metrics of classes and labels; of tokens there are none."""
        if self.spec.kind == "tokens" or not self.answers:
            return Judgement({})
        logits, targets = (torch.cat(parts).numpy() for parts in zip(*self.answers, strict=True))
        return judge(self.spec.kind, logits, targets, thresholds, groups)

    def per_sample(self) -> NDArray[np.float64]:
        """Whether each sample was answered rightly; of tokens, the share that was. NaN without a target."""
        return torch.cat(self.samples).double().numpy() if self.samples else np.zeros(0)


def _inputs(batch: Batch, names: Sequence[str]) -> dict[str, Any]:
    """The arrays that belong to these inputs."""
    return {key: value for key, value in batch.items() if key.partition("/")[0] in names and "/target" not in key}


def _by_group(
    task: SampleTask, groups: Mapping[str, NDArray[np.int64]], right: NDArray[np.float64]
) -> dict[str, dict[str, dict[str, float]]]:
    accuracies: dict[str, dict[str, dict[str, float]]] = {}
    for name, members in groups.items():
        values = {}
        for index, value in enumerate(task.group_names[name]):
            inside = right[(members == index) & ~np.isnan(right)]
            if len(inside):
                values[value] = {"accuracy": float(inside.mean()), "samples": float(len(inside))}
        accuracies[name] = values
    return accuracies


def _add_bits(
    outputs: dict[str, dict[str, float]],
    tallies: Sequence[_Tally],
    task: SampleTask,
    split: Split,
    chosen: NDArray[np.int64],
) -> None:
    """Add bits per byte of text, where the task counts the bytes of the predicted tokens."""
    predicted_bytes = getattr(task, "predicted_bytes", None)
    if predicted_bytes is None:
        return
    for tally in tallies:
        if tally.spec.kind == "tokens":
            outputs[tally.spec.name]["bits_per_byte"] = tally.loss / math.log(2) / float(predicted_bytes(split, chosen))


def _mean_of_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the first axis of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(values)
    counts = known.sum(0)
    total = np.where(known, values, 0.0).sum(0)
    mean: NDArray[np.float64] = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
    return mean


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not (isinstance(item, float) and not math.isfinite(item))}
        return {key: _finite(item) for key, item in kept.items()}
    return value
