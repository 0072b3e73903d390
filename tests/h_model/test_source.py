"""An H-Model as one file of plain PyTorch: every option of its structure answers as the library does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file

from evodevo.errors import UsageError
from evodevo.export.models.base import ModelSubject, Story
from evodevo.export.models.source import SOURCE
from evodevo.export.models.write import write_model
from evodevo.h_model.aggregations.base import AGGREGATIONS, AggregationSizes, AggregationSpec, Normaliser
from evodevo.h_model.model import HModel
from evodevo.h_model.source.program import h_model_program
from evodevo.h_model.spec import HModelStructure, RouterStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.tensors import TensorNetwork
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.source.sheet import WEIGHTS
from evodevo.runs.export import model_subject
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, LABELS, NEXT, TEXT, small_batch, small_model
from evodevo.testing.sources import check_network, run_program

FEATURES = InputSpec("features", "features", length=5, size=6)
ENDS: dict[bool, tuple[Any, Any]] = {True: ((TEXT,), (NEXT,)), False: ((TEXT, IMAGE, FACTS), (CLASS, LABELS))}
BLOCK = {"kind": "transformer", "heads": 2, "feedforward": 12}
MIXED = [
    BLOCK,
    {"kind": "lstm"},
    {"kind": "convolution", "router": "linear"},
    {"kind": "liv", "operator": "Rec-2", "head_size": 4},
    {"kind": "mlp", "width": 12, "router": "constant"},
    {"kind": "mlp", "router": "independent"},
]
ONE = {"mode": "target_topm", "m": 1}
CUT = {"mode": "threshold", "threshold": 0.4}


def options(field: str, among: type, **more: Any) -> dict[str, dict[str, Any]]:
    """A case for each value that a field of literals may have."""
    values = among.model_fields[field].annotation.__args__  # type: ignore[attr-defined]
    path = more.pop("under", None)
    return {f"{field}={value}": {path: {field: value}} if path else {field: value} for value in values}


BOTH: dict[str, dict[str, Any]] = {
    **options("gate", RouterStructure, under="router"),
    **options("head", RouterStructure, under="router"),
    **options("iteration_embedding", HModelStructure),
    **options("output_division", HModelStructure),
    **{f"normaliser={name}": {"normaliser": name} for name in Normaliser.__args__},  # type: ignore[attr-defined]
    **{f"gate={gate} skips": {"router": {"gate": gate}, "inference": ONE} for gate in ("softmax_in", "sparsemax_in")},
    **{f"aggregation={kind}": {"aggregation": kind} for kind in ("sum", "attention")},
    "attention skips": {"aggregation": "attention", "inference": {"mode": "source_topk", "outputs_count": True}},
    "source_topk": {"inference": {"mode": "source_topk", "k": 1}},
    "threshold, no inflow gate": {"inference": CUT, "inflow_gate": False},
    "window": {"window": 1, "hidden": [BLOCK] * 5, "disabled": [2]},
    "no self-routing": {"self_routing": False},
    "T = 0": {"iterations": 0},
    "alpha": {"alpha": 2.0, "alpha_rate": 0.5},
    "annealed alpha": {"alpha": 2.0, "alpha_end": 0.5},
    **{f"halting={rule}": {"halting": {"rule": rule, "threshold": 0.6}} for rule in ("output_mass", "act", "ponder")},
    "halting=kl": {"halting": {"rule": "kl", "threshold": 0.05}},
    "mixed layers": {"hidden": MIXED},
    "mixed layers skip": {"hidden": MIXED, "inference": ONE},
}
POOLS = {True: ("token", "prefix_mean"), False: ("attention", "mean", "max", "last", "token", "prefix_mean")}
CASES = [
    *((causal, name, changes) for causal in (False, True) for name, changes in BOTH.items()),
    *((causal, f"pool={pool}", {"router": {"pool": pool}}) for causal, pools in POOLS.items() for pool in pools),
    *((False, f"canvas={canvas}", {"canvas": canvas, "slots": 5}) for canvas in ("latents", "pad")),
    (False, "budget", {"canvas": "latents", "slots": 5, "inference": {"mode": "budget", "flops": 20_000.0}}),
    (False, "missing", {"missing": True}),
]


@pytest.mark.parametrize(("causal", "changes"), [case[::2] for case in CASES], ids=[f"{c}-{n}" for c, n, _ in CASES])
def test_every_option_answers_as_the_library(causal: bool, changes: dict[str, Any]) -> None:
    network = small_model(*ENDS[causal], causal=causal, **changes)
    check_network(network, h_model_program(network))


@pytest.mark.parametrize("causal", [False, True])
def test_an_h_model_inside_another_answers_as_the_library(causal: bool) -> None:
    same = {"stream": "paper", "width": 8, "hidden": [BLOCK] * 2, "iterations": 2, "causal": causal}
    inner = {"kind": "h_model", "structure": same}
    network = small_model(*ENDS[causal], causal=causal, hidden=[BLOCK, inner, inner])
    program = h_model_program(network)
    check_network(network, program)
    assert program.text.count("class InnerCore") == 1


@pytest.mark.parametrize(("rule", "limit"), [("output_mass", 0.6), ("act", 0.6), ("ponder", 0.6), ("kl", 0.002)])
def test_samples_halt_at_their_own_iteration(rule: str, limit: float) -> None:
    network = small_model(halting={"rule": rule, "threshold": limit}, iterations=5)
    batch = small_batch(count=24)
    if network.unit is not None:
        found: list[torch.Tensor] = []
        hook = network.unit.linear.register_forward_hook(lambda *call: found.append(call[2].detach()))
        network(batch)
        hook.remove()
        with torch.no_grad():  # half of the samples halt at once
            network.unit.linear.weight.mul_(10)
            network.unit.linear.bias.copy_(-10 * (found[0].mean() + 1))
    check_network(network, h_model_program(network), count=24)
    network(batch)
    assert len(set(network.halting_counts.tolist())) > 1, "else the case tests nothing"


def test_features_and_layers_that_are_half_born_answer_as_the_library() -> None:
    network = small_model((FEATURES, FACTS), (CLASS,), router={"gate": "softmax_in"})
    network.births = {2: 0.3, 0: 0.6}
    check_network(network, h_model_program(network))
    network.births = {1: 0.0}
    check_network(network, h_model_program(network))


def test_what_is_set_on_a_network_is_in_its_source() -> None:
    network = small_model()
    plain = h_model_program(network).text
    network.alpha, network.iterations, network.inference = 0.5, 5, InferenceStructure(mode="source_topk", k=1)
    check_network(network, h_model_program(network))
    assert h_model_program(network).text != plain


def test_an_input_that_is_missing_is_replaced_by_its_token() -> None:
    network = small_model((IMAGE, FACTS), (CLASS,), missing=True)
    model = run_program(h_model_program(network))
    batch = small_batch((IMAGE, FACTS), (CLASS,))
    del batch["image"]
    with torch.no_grad():
        torch.testing.assert_close(model(None, batch["facts"])[0], network(batch)["answer"], rtol=0, atol=1e-6)


def test_equal_networks_give_equal_text_with_only_what_they_use() -> None:
    text = h_model_program(small_model()).text
    assert text == h_model_program(small_model(seed=3)).text
    for word in ("halted", "sparsemax", "spread", "fixed", "keep(", "CausalAttention", "LSTM", "F.pad"):
        assert word not in text, word
    assert "keep(weights)" in h_model_program(small_model(inference=ONE)).text


def test_a_budget_over_texts_is_refused_with_a_sentence() -> None:
    network = small_model(inference={"mode": "budget", "flops": 20_000.0})
    with pytest.raises(UsageError, match=r"budget has no source for texts: .*take --to pt2"):
        h_model_program(network)


class Unwritten(AggregationSpec):
    kind: Literal["unwritten"] = "unwritten"

    def products(self, width: int, length: int, sources: int, targets: int, *, per_position: bool) -> int:
        return 0

    def build(self, sizes: AggregationSizes) -> Any:
        return AGGREGATIONS.get("sum")().build(sizes)


def test_an_aggregation_without_source_is_refused_with_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_model()
    monkeypatch.setattr(network.core, "structure", network.structure.model_copy(update={"aggregation": Unwritten()}))
    with pytest.raises(UsageError, match=r"^an aggregation of kind 'unwritten' has no source; take --to pt2\.$"):
        h_model_program(network)


# The export


def trained() -> HModel:
    """A small H-Model after some steps."""
    network = small_model((TEXT, IMAGE), (CLASS,), inference=ONE, halting={"rule": "act", "threshold": 0.6})
    optimiser = torch.optim.AdamW(network.train().parameters(), lr=0.03)
    for step in range(8):
        optimiser.zero_grad()
        network.loss(small_batch((TEXT, IMAGE), (CLASS,), seed=step)).backward()
        optimiser.step()
    return network.eval()


def subject(network: HModel) -> ModelSubject:
    return model_subject(TensorNetwork(network), name="it", kind="h_model", story=Story("it", {}))


@pytest.mark.slow
def test_a_trained_one_leaves_and_a_process_without_evodevo_answers_as_it(tmp_path: Path) -> None:
    network = trained()
    done = write_model(SOURCE, subject(network), tmp_path / "out")
    assert done.verified.difference <= 1e-5 * done.verified.scale
    spec = json.loads((done.folder / "spec.json").read_text())
    assert spec["arguments"] == ["text", "text_mask", "image"]
    assert [one["name"] for one in spec["inputs"]] == ["text", "text/mask", "image"]
    stored = sum(tensor.numel() for tensor in load_file(done.folder / WEIGHTS).values())
    assert stored == sum(parameter.numel() for parameter in network.parameters())


def test_a_network_of_which_a_part_has_no_source_leaves_as_pt2(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SOURCE.holds(subject(small_model()))

    def none(*_: Any, **__: Any) -> str:
        raise UsageError("a layer of kind 'transformer' has no source; take --to pt2.")

    monkeypatch.setattr(TransformerLayer, "source", none)
    assert not SOURCE.holds(subject(small_model()))
    with pytest.raises(
        UsageError, match=r"^it cannot be written as source: a layer of kind 'transformer' has no source"
    ):
        SOURCE.check(subject(small_model()))
