"""A kind of network that a package adds is as good as a built-in one, in every verb that networks serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from pydantic import Field
from torch import Tensor, nn

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trials import Trial
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.cost import check_pass
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NETWORKS, NetworkEnvelope, NetworkSpec
from evodevo.operators.cost import Cost, Mode
from evodevo.runs.archive import Archive
from evodevo.runs.predict import best_trained
from evodevo.runs.train import experiment
from evodevo.settings import Settings, validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.network_suite import TASKS, NetworkCase, NetworkTests
from evodevo.testing.small_networks import problem

KIND = "testing.bag"


class BagStructure(Settings):
    """A bag of words: the mean of embeddings, and a linear head for each output."""

    width: int = Field(default=8, ge=1, le=64)


class BagNetwork(NetworkSpec):
    """A bag of words over texts."""

    kind: Literal["testing.bag"] = "testing.bag"
    structure: BagStructure = BagStructure()

    def cost(
        self,
        *,
        inputs: Sequence[NamedInput] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        check_pass(batch, mode)
        width = self.structure.width
        tables = sum(spec.vocabulary + 1 for spec in inputs) * width
        heads = sum((width + 1) * spec.size for spec in outputs)
        flops = batch * sum(2 * width * spec.size for spec in outputs)
        return Cost(0, tables + heads, 0, flops, flops, 4 * heads)

    def describe(self) -> list[str]:
        return [f"A bag of words of width {self.structure.width}."]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> Network:
        return Bag(self.structure, inputs, outputs)


class Bag(Network):
    """Its model. ``kept`` stands for what a network may keep beside its weights."""

    def __init__(self, structure: BagStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> None:
        super().__init__(inputs, outputs)
        self.structure = structure
        self.kept = 0.0
        self.tables = nn.ModuleDict({one.name: nn.Embedding(one.vocabulary, structure.width) for one in inputs})
        self.absent = nn.ParameterDict({one.name: nn.Parameter(torch.randn(structure.width)) for one in inputs})
        self.heads = nn.ModuleDict({one.name: nn.Linear(structure.width, one.size) for one in outputs})

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        pooled = self.represent(batch).pooled
        return {name: head(pooled) for name, head in self.heads.items()}

    def represent(self, batch: Batch) -> Representation:
        rows = next(len(value) for value in batch.values())
        total = torch.zeros(rows, self.structure.width)
        for spec in self.input_specs:
            absent = self.absent[spec.name].expand(rows, -1)
            if spec.name not in batch:
                total = total + absent
                continue
            ids = batch[spec.name]
            mask = batch.get(f"{spec.name}/mask", torch.ones_like(ids, dtype=torch.bool))
            weights = mask.unsqueeze(-1).float()
            mean = (self.tables[spec.name](ids) * weights).sum(1) / weights.sum(1).clamp(min=1)
            present = batch.get(f"{spec.name}/present", torch.ones(rows, dtype=torch.bool))
            total = total + torch.where(present.unsqueeze(-1), mean, absent)
        return Representation(total.unsqueeze(1), None, total)

    def state_extras(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def take_state_extras(self, extras: Mapping[str, Any]) -> None:
        self.kept = float(extras["kept"])


NETWORKS.add(KIND, BagNetwork)


class TestForeignKind(NetworkTests):
    """The laws of networks."""

    @pytest.fixture(params=["text", "two texts"])
    def case(self, request: pytest.FixtureRequest) -> NetworkCase:
        return NetworkCase(BagNetwork(), inputs=TASKS[request.param])


def bag(**more: Any) -> Trial:
    return Trial(**{"name": "bag", "network": BagNetwork(), "learning_rate": 1e-2, **more})


def test_it_travels_as_json_and_is_checked_by_its_own_row() -> None:
    values = {"network": {"kind": KIND, "structure": {"width": 4}}}
    envelope = validate(NetworkEnvelope, values, what="a file")
    assert envelope.network == BagNetwork(structure=BagStructure(width=4))
    assert envelope.model_dump(mode="json") == values
    with pytest.raises(UsageError, match=rf"network\.{KIND}\.structure\.width.*less than or equal to 64, got '65'"):
        validate(NetworkEnvelope, {"network": {"kind": KIND, "structure": {"width": 65}}}, what="a file")
    with pytest.raises(UsageError, match=f"'testing.bog'.*expected tags: .*'h_model'.*'{KIND}'"):
        validate(NetworkEnvelope, {"network": {"kind": "testing.bog"}}, what="a file")


def test_it_is_trained_kept_loaded_and_resumed(tmp_path: Path) -> None:
    given = problem({"training": {"checkpoint_every": 3}}, tmp_path)
    messages: list[dict[str, Any]] = []
    whole = given.read(evaluate_network(given.payload(bag(), 5, None), messages.append))
    assert whole.reason is None, whole.detail
    assert "trace" not in whole.blobs
    network, about = load_network(FolderPool(tmp_path), whole.blobs["weights"])
    assert isinstance(network, Bag)
    assert about.keys() == {"modality", "inputs", "outputs", "task", "task_settings", "task_key"}
    checkpoint = next(one["checkpoint"] for one in messages if "checkpoint" in one)
    told: list[dict[str, Any]] = []
    resumed = given.read(evaluate_network(given.payload(bag(), 5, checkpoint), told.append))
    assert not any("restarted" in one for one in told)
    assert min(one["step"] for one in told if "step" in one) > 1
    assert resumed.scores == whole.scores
    again, _ = load_network(FolderPool(tmp_path), resumed.blobs["weights"])
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in network.state_dict().items())


def test_what_is_kept_beside_the_weights_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(blobs=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Bag, "state_extras", lambda self: {"kept": 0.25})
        outcome = given.read(evaluate_network(given.payload(bag(), 5, None), lambda message: None))
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert network.kept == 0.25
    monkeypatch.setattr(Bag, "state_extras", lambda self: {})
    outcome = given.read(evaluate_network(given.payload(bag(), 5, None), lambda message: None))
    with pytest.raises(UnsafeFileError, match="kept"):
        load_network(FolderPool(tmp_path), outcome.blobs["weights"])


@pytest.mark.slow
def test_a_run_of_it_is_recorded_shown_and_asked(tmp_path: Path) -> None:
    lines = [f"{'warm' if number % 2 else 'cold'} thing {number},{number % 2}" for number in range(60)]
    (tmp_path / "posts.csv").write_text("\n".join(["caption,class", *lines]))
    changes: dict[str, Any] = {
        "text": "caption",
        "label": "class",
        "data": str(tmp_path / "posts.csv"),
        "evaluation": {"training": {"budget": {"seconds": None, "steps": 30}, "batch_size": 16}, "curve_points": 2},
        "experiment": {
            "seeds": 1,
            "learning_rates": [0.1],
            "arms": [{"name": "bag", "network": {"kind": KIND, "structure": {"width": 4}}}],
            "reference": None,
        },
        "execution": {"executor": "serial"},
    }
    store = tmp_path / "runs"
    made = experiment(
        "module_zoo.classifier", baselines="none", overrides=changes, store=store, cache_folder=tmp_path / "cache"
    )
    made.archive.close()
    with Archive(store) as archive:
        best = best_trained(archive, "last")
        assert best.genome.network == BagNetwork(structure=BagStructure(width=4))
        assert "A bag of words of width 4." in best.run.slice.words(best)
        with pytest.raises(UsageError, match="cannot be drawn"):
            best.run.slice.drawing(best)
        prediction = best.predict({"text": "warm thing"})
        (answered,) = prediction.answers.values()
        assert answered.chosen == ("1",)
        assert dict(prediction.weights) == {}
