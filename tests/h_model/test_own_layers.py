"""Hidden layers of one output's own: all other answers are those of the model without them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.growth.h_model.growable import GrowableHModel
from evodevo.h_model.model import HModel
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.own_layers import output_groups, without
from evodevo.h_model.source.program import h_model_program
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.build import build_network
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import validate
from evodevo.testing.networks import CLASS, IMAGE, LABELS, TEXT, small_batch, small_model
from evodevo.testing.sources import check_network

NEW = TransformerLayer(heads=4, feedforward=10)
INPUTS, OUTPUTS = (TEXT, IMAGE), (CLASS, LABELS)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"aggregation": "attention"},
    {"inflow_gate": False},
    {"disabled": [1]},
    {"router": {"head": "linear", "pool": "max"}},
    {"router": {"head": "channel"}},
    {"router": {"head": "constant"}},
    {"router": {"gate": "softmax_in"}},
    {"router": {"gate": "sparsemax_in"}},
    {"normaliser": "count"},
    {"inference": {"mode": "target_topm", "m": 2}},
]


def extended(**changes: Any) -> tuple[HModel, dict[str, Tensor], dict[str, Tensor]]:
    """A model of which the output ``tags`` has two layers of its own, a batch, and the answers before."""
    model = small_model(INPUTS, OUTPUTS, **changes).double()
    batch = small_batch(INPUTS, OUTPUTS, padded=True)
    with torch.no_grad():
        before = model(batch)
    places = [model.add_node(layer, enabled=True, seed=seed).place for seed, layer in enumerate((NEW, MLPLayer()))]
    model.give("tags", places)
    return model, batch, before


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_others_answer_as_before_and_it_answers_with_all_layers(changes: dict[str, Any]) -> None:
    model, batch, before = extended(**changes)
    with torch.no_grad():
        after = model(batch)
        assert list(after) == ["answer", "tags"]
        torch.testing.assert_close(after["answer"], before["answer"], rtol=0, atol=1e-12)
        assert not torch.allclose(after["tags"], before["tags"], atol=1e-6)
        model.structure = model.core.structure = model.structure.model_copy(update={"own": ()})
        whole = model(batch)
    torch.testing.assert_close(after["tags"], whole["tags"], rtol=0, atol=1e-12)
    assert not torch.allclose(after["answer"], whole["answer"], atol=1e-6), "layers of all change all answers"


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_its_source_answers_as_the_library(changes: dict[str, Any]) -> None:
    model = extended(**changes)[0].float()
    check_network(model, h_model_program(model))
    model.give("answer", [0])  # a pass for each output
    check_network(model, h_model_program(model))


def test_they_learn_from_their_output_alone() -> None:
    model, batch, _ = extended()
    model.train()
    new = [parameter for place in (3, 4) for parameter in model.core.layers[place].parameters()]
    answers = model(batch)
    others = torch.autograd.grad(answers["answer"].sum(), new, retain_graph=True, allow_unused=True)
    assert all(one is None or not one.any() for one in others)
    own = torch.autograd.grad(answers["tags"].sum(), new, allow_unused=True)
    assert sum(one is not None and bool(one.any()) for one in own) > len(new) / 2


def test_a_batch_without_a_target_of_theirs_is_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch, _ = extended()
    passes = []
    final = model._final
    monkeypatch.setattr(model, "_final", lambda *given, **more: passes.append(1) or final(*given, **more))
    both = model.train().loss(batch)
    assert len(passes) == 2
    for name, unknown in (("answer", -1), ("tags", float("nan"))):
        passes.clear()
        target = torch.full_like(batch[f"{name}/target"], unknown)
        one = model.loss({**batch, f"{name}/target": target})
        assert len(passes) == 1
        assert torch.isfinite(one)
        assert one < both


def test_the_loss_is_that_of_the_answers() -> None:
    model, batch, _ = extended()
    torch.testing.assert_close(model.loss(batch), model.answers_loss(model(batch), batch))
    batch["tags/target"] = torch.full_like(batch["tags/target"], float("nan"))
    torch.testing.assert_close(model.loss(batch), model.answers_loss(model(batch), batch))


def test_the_structure_is_stored_with_them_and_moves_with_layers() -> None:
    model, batch, before = extended()
    structure = model.structure
    assert validate(HModelStructure, structure.model_dump(mode="json"), what="it") == structure
    again = build_network(HModelNetwork(structure=structure), INPUTS, OUTPUTS, 1).double().eval()
    again.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, answer in model(batch).items():
            assert torch.equal(again(batch)[name], answer)
    model.add_node(NEW, at=0)
    assert model.structure.own[0].layers == (4, 5)
    model.remove_node(0)
    assert model.structure.own[0].layers == (3, 4)
    model.remove_node(3)
    assert model.structure.own[0].layers == (3,)
    model.remove_node(3)
    assert model.structure.own == ()
    with torch.no_grad():
        torch.testing.assert_close(model(batch), before, rtol=0, atol=1e-12)
    assert "own" not in model.structure.model_dump(mode="json"), "stored structures are those of before"


def test_groups_of_outputs() -> None:
    structure = small_model().structure
    assert [group.outputs for group in output_groups(structure, ["a", "b"])] == [("a", "b")]
    own = [{"output": "b", "layers": [2]}, {"output": "c", "layers": [1]}]
    groups = output_groups(validate(HModelStructure, {**structure.model_dump(), "own": own}, what="it"), list("abcd"))
    assert [(group.outputs, group.absent) for group in groups] == [
        (("a", "d"), (1, 2)),
        (("b",), (1,)),
        (("c",), (2,)),
    ]


def test_a_core_is_as_it_was_after_an_error() -> None:
    core = small_model().core
    with without(core, [1]):
        assert (core.births, core.absent) == ({1: 0.0}, (1,))
    assert (core.births, core.absent) == ({}, ())
    with pytest.raises(RuntimeError), without(core, [1]):
        raise RuntimeError
    assert (core.births, core.absent) == ({}, ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"own": [{"output": "tags", "layers": [3]}]}, "layers are 0 to 2"),
        ({"own": [{"output": "tags", "layers": [0]}, {"output": "tags", "layers": [1]}]}, "an output twice"),
        ({"own": [{"output": "sums", "layers": [0]}]}, "own names the output 'sums'; the model has answer, tags"),
        ({"own": [{"output": "tags", "layers": [0, 1, 2]}]}, "no hidden layer to the other"),
        ({"own": [{"output": "tags", "layers": [0]}], "window": 1}, "do not go with a window"),
        ({"own": [{"output": "tags", "layers": [0]}], "halting": {"rule": "kl"}}, "do not go with halting"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        small_model(INPUTS, OUTPUTS, **changes)


def test_what_is_refused_leaves_the_model_as_it_was() -> None:
    model, batch, _ = extended()
    with torch.no_grad():
        before = model(batch)
    for output, places, words in (("sums", [1], "no output 'sums'"), ("answer", [0, 1, 2], "no hidden layer")):
        with pytest.raises(UsageError, match=words):
            model.give(output, places)
    with torch.no_grad():
        torch.testing.assert_close(model(batch), before, rtol=0, atol=0)
    with pytest.raises(UsageError, match="cannot grow"):
        GrowableHModel.of(model.structure)
    model.births = {0: 0.5}
    with pytest.raises(UsageError, match="while layers are partly born"):
        h_model_program(model)


def test_they_begin_with_half_of_every_message() -> None:
    model = small_model(INPUTS, OUTPUTS, lively=0.0, alpha=2.0)
    place = model.add_node(NEW, enabled=True).place
    batch = small_batch(INPUTS, OUTPUTS)
    shut = model.trace(batch)
    model.give("tags", [place])
    opened = model.trace(batch)
    assert shut.connections[:, 1:, :3, place].max() < 0.05
    old = opened.connections[:, :-1, :3, place]  # (B, T - 1, 3), of the old layers
    torch.testing.assert_close(torch.from_numpy(old.copy()), torch.full(old.shape, 0.5, dtype=torch.float32))
