"""What is measured equals what scikit-learn and plain counting say, however the samples are cut into batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence
from torch.utils.flop_counter import FlopCounterMode

from evodevo.experiments.flop_counter import counting, look_at_step
from evodevo.experiments.measure import measure, places
from evodevo.networks.base import Network, Representation
from evodevo.objectives.probabilities import softmax
from evodevo.tasks.base import OutputSpec, SampleTask
from evodevo.tasks.inputs import InputSpec
from evodevo.training.precision import decide

COUNT, CLASSES, LABELS, LENGTH = 37, 3, 5, 4
RNG = np.random.default_rng(0)
LOGITS = {
    "kind": RNG.normal(size=(COUNT, CLASSES)).astype(np.float32),
    "marks": RNG.normal(size=(COUNT, LABELS)).astype(np.float32),
    "next": RNG.normal(size=(COUNT, LENGTH, CLASSES)).astype(np.float32),
}
TARGETS: dict[str, NDArray[Any]] = {
    "kind": RNG.integers(0, CLASSES, COUNT),
    "marks": RNG.integers(0, 2, (COUNT, LABELS)).astype(np.float32),
    "next": RNG.integers(0, CLASSES, (COUNT, LENGTH)),
}
OUTPUTS = (
    OutputSpec("kind", "class", CLASSES),
    OutputSpec("marks", "labels", LABELS),
    OutputSpec("next", "tokens", CLASSES, of="text"),
)


class Table(SampleTask):
    """Sample p holds the number p, and a text that repeats it."""

    name = "table"
    inputs = (InputSpec("row", "vector", size=1), InputSpec("text", "tokens", length=LENGTH, vocabulary=COUNT))
    outputs = OUTPUTS
    group_names: ClassVar[dict[str, tuple[str, ...]]] = {"half": ("low", "high")}  # type: ignore[misc]
    digest = "0" * 64

    def __init__(self, targets: Mapping[str, NDArray[Any]] = TARGETS, more: Mapping[str, NDArray[Any]] | None = None):
        self.targets = targets
        self.more = more or {}

    @classmethod
    def open(cls, settings: Any, cache_folder: Any = None, key: Any = None) -> Table:
        return cls()

    def count(self, split: Any) -> int:
        return COUNT

    def fetch(self, split: Any, places: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        found = {f"{name}/target": values[places] for name, values in self.targets.items()}
        found |= {name: values[places] for name, values in self.more.items()}
        return {**found, "row": places[:, None].astype(np.float32), "text": np.repeat(places[:, None], LENGTH, 1)}

    def groups(self, split: Any, places: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {"half": (places >= 20).astype(np.int64)}

    def show(self, split: Any, place: int) -> dict[str, str]:
        return {"row": str(place)}

    def describe(self) -> dict[str, Any]:
        return {}


class Known(Network):
    """Answers from the table by the number that it reads."""

    def __init__(self) -> None:
        super().__init__(Table.inputs, OUTPUTS)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        rows = batch["row"].long().squeeze(1)
        return {name: torch.from_numpy(values)[rows] * self.scale for name, values in LOGITS.items()}

    def represent(self, batch: Mapping[str, Tensor]) -> Representation:
        raise NotImplementedError


def measured(task: Table | None = None, batch_size: int = 8, **more: Any) -> Any:
    task = task or Table()
    everyone = places(task, "test", None)
    return measure(Known(), task, "test", everyone, batch_size=batch_size, precision=decide("cpu"), **more)


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_metrics_equal_those_of_scikit_learn(batch_size: int) -> None:
    found = measured(batch_size=batch_size)
    chosen, wanted = LOGITS["marks"] > 0, TARGETS["marks"] > 0
    marks = found.outputs["marks"]
    assert marks["f1_micro"] == pytest.approx(f1_score(wanted, chosen, average="micro"))
    assert marks["f1_macro"] == pytest.approx(f1_score(wanted, chosen, average="macro"))
    assert marks["exact"] == pytest.approx(accuracy_score(wanted, chosen))
    kind = accuracy_score(TARGETS["kind"], LOGITS["kind"].argmax(1))
    assert found.outputs["kind"]["accuracy"] == pytest.approx(kind)
    tokens = (LOGITS["next"].argmax(2) == TARGETS["next"]).mean()
    assert found.outputs["next"]["accuracy"] == pytest.approx(tokens)
    assert found.accuracy == pytest.approx((kind + marks["f1_micro"] + tokens) / 3)
    assert found.error == pytest.approx(1 - found.accuracy)
    probability = torch.from_numpy(LOGITS["kind"]).double().softmax(1).numpy()
    loss = -np.log(probability[np.arange(COUNT), TARGETS["kind"]]).mean()
    assert found.outputs["kind"]["loss"] == pytest.approx(loss, rel=1e-5)
    assert found.samples == COUNT
    right = [
        LOGITS["kind"].argmax(1) == TARGETS["kind"],
        ((LOGITS["marks"] > 0) == (TARGETS["marks"] > 0)).all(1),
        (LOGITS["next"].argmax(2) == TARGETS["next"]).mean(1),
    ]
    each = np.mean(right, axis=0)
    assert found.groups["half"]["low"] == {"accuracy": pytest.approx(each[:20].mean()), "samples": 20.0}
    assert found.groups["half"]["high"] == {"accuracy": pytest.approx(each[20:].mean()), "samples": 17.0}


def test_what_has_no_target_counts_nowhere() -> None:
    targets = {name: values.copy() for name, values in TARGETS.items()}
    targets["kind"][::2] = -1
    targets["marks"][::2] = np.nan
    targets["next"][::2] = -1
    found = measured(Table(targets))
    odd = np.arange(1, COUNT, 2)
    assert found.outputs["kind"]["accuracy"] == pytest.approx((LOGITS["kind"].argmax(1) == TARGETS["kind"])[odd].mean())
    wanted = f1_score(TARGETS["marks"][odd] > 0, LOGITS["marks"][odd] > 0, average="micro")
    assert found.outputs["marks"]["f1_micro"] == pytest.approx(wanted)
    assert sum(one["samples"] for one in found.groups["half"].values()) == len(odd)


def test_nothing_to_measure_is_no_number_in_json() -> None:
    nothing = {
        "kind": np.full(COUNT, -1),
        "marks": np.full((COUNT, LABELS), np.nan, np.float32),
        "next": np.full((COUNT, LENGTH), -1),
    }
    found = measured(Table(nothing))
    assert math.isnan(found.loss)
    assert "loss" not in found.to_json()
    assert found.to_json()["samples"] == COUNT


def test_an_answer_among_tokens_is_looked_up_at_its_position() -> None:
    position, rows = RNG.integers(0, LENGTH, COUNT), np.arange(COUNT)
    right = LOGITS["next"].argmax(2)[rows, position] == TARGETS["next"][rows, position]
    assert measured(Table(more={"next/position": position})).outputs["next"]["answer"] == pytest.approx(right.mean())


def test_which_samples_are_chosen_and_which_inputs_exchanged() -> None:
    task, plain = Table(), measured()
    first, again = places(task, "test", 10), places(task, "test", 10)
    assert first.tolist() == again.tolist() == sorted(set(first.tolist())), "the same at every call"
    assert places(task, "validation", 10).tolist() != first.tolist()
    assert places(task, "test", None).tolist() == list(range(COUNT)) == places(task, "test", 1000).tolist()
    assert measured(shuffle=("row",)).loss != plain.loss
    assert measured(shuffle=("text",)).loss == plain.loss, "this network reads no text"


class Products(Network):
    """A product, an attention, a recurrent layer of sizes that can be counted by hand."""

    def __init__(self) -> None:
        super().__init__((InputSpec("x", "vector", size=8),), (OutputSpec("y", "class", 3),))
        self.linear = nn.Linear(8, 3)
        self.recurrent = nn.LSTM(4, 5, batch_first=True, bidirectional=True)

    def forward(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        x = batch["x"]
        sequence = x.view(len(x), 2, 4)
        heads = sequence.unsqueeze(1)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads).sum((1, 2, 3))
        state = self.recurrent(sequence)[0].sum((1, 2))
        return {"y": self.linear(x) + (mixed + state)[:, None]}

    def represent(self, batch: Mapping[str, Tensor]) -> Representation:
        raise NotImplementedError


def test_flops_are_those_of_the_formulas() -> None:
    network, rows = Products(), 7
    batch = {"x": torch.randn(rows, 8), "y/target": torch.zeros(rows, dtype=torch.long)}
    attention = 2 * (2 * 2 * 4) * 2
    recurrent = 2 * 2 * 4 * 5 * (4 + 5) * 2
    with torch.no_grad(), counting(network) as counter:
        network(batch)
    assert counter.flops == rows * (2 * 8 * 3 + attention + recurrent)


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_products_are_counted_as_pytorch_counts_them(context: Callable[[], AbstractContextManager[None]]) -> None:
    network = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.Linear(6, 5), nn.GELU(), nn.Flatten(), nn.Linear(40, 2))
    with context():
        x = torch.randn(2, 3, 6)

        def step() -> None:
            scores = network(x) @ torch.randn(2, 4)
            if torch.is_grad_enabled():
                scores.sum().backward()

        with FlopCounterMode(display=False) as theirs:
            step()
        with counting(network) as ours:
            step()
    assert ours.flops == theirs.get_total_flops() > 0


@pytest.mark.parametrize("learns", [False, True])
def test_a_packed_sequence_counts_once_as_its_real_positions(learns: bool) -> None:
    lstm, lengths = nn.LSTM(4, 5, batch_first=True, bidirectional=True), [7, 3, 1]
    x = torch.randn(3, 7, 4, requires_grad=learns)

    def counted(given: Tensor | PackedSequence) -> float:
        with torch.set_grad_enabled(learns), counting(lstm) as counter:
            said = lstm(given)[0]
            if learns:
                (said.data if isinstance(said, PackedSequence) else said).sum().backward()
        return counter.flops

    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True)
    real, all_of_them = counted(packed), counted(x)
    assert real == pytest.approx(all_of_them * sum(lengths) / x[..., 0].numel(), rel=0.05)


def test_a_look_at_a_step_changes_nothing() -> None:
    network = Products().eval()
    batch = {"x": torch.randn(4, 8), "y/target": torch.zeros(4, dtype=torch.long)}
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    state = torch.get_rng_state()
    step = look_at_step(network, batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not network.training
    assert step.flops > 0
    network.loss(batch).backward()
    squares = sum(float(p.grad.square().sum()) for p in network.linear.parameters() if p.grad is not None)
    norms = {name: value**2 for name, value in step.gradient_norms.items() if name.startswith("linear")}
    assert sum(norms.values()) == pytest.approx(squares, rel=1e-5)


def test_classes_and_labels_have_the_metrics_of_their_answers() -> None:
    found = measured()
    assert found.outputs["kind"]["auc"] == pytest.approx(
        roc_auc_score(TARGETS["kind"], softmax(LOGITS["kind"].astype(float)), multi_class="ovr")
    )
    assert found.metric("auc") == pytest.approx((found.outputs["kind"]["auc"] + found.outputs["marks"]["auc"]) / 2)
    assert found.outputs["kind"]["log_loss"] == pytest.approx(found.outputs["kind"]["loss"], rel=1e-5)
    assert "auc" not in found.outputs["next"]
    assert found.thresholds["marks"]
    assert not found.thresholds["kind"], "three classes have no threshold"
    assert not any(name.endswith("_tuned") for name in found.outputs["marks"])
    again = measured(thresholds=found.thresholds)
    assert again.outputs["marks"]["f1_macro_tuned"] >= again.outputs["marks"]["f1_macro"]
    kept = found.to_json()
    assert kept["thresholds"] == {"marks": list(found.thresholds["marks"])}
    assert sum(kept["reliability"]["kind"]["count"]) == COUNT
    assert found.right.shape == (COUNT,)
    assert found.right[:20].mean() == pytest.approx(found.groups["half"]["low"]["accuracy"])


def test_why_a_metric_is_missing_is_told() -> None:
    one = {**TARGETS, "kind": np.zeros(COUNT, dtype=np.int64), "marks": np.ones((COUNT, LABELS), dtype=np.float32)}
    found = measured(Table(one))
    assert math.isnan(found.metric("auc"))
    assert "kind: the split has one class" in found.why("auc")
    assert found.why("log_loss") == ""
    assert found.why("bleu") == "no output has it"
    kept = found.to_json()
    assert "auc" not in kept["outputs"]["kind"]
    assert kept["reasons"]["kind"]["auc"] == "the split has one class"
