"""Hidden layers of an H-Model come and go as modules of a zoo do (docs/spec/h_model.md#adding-and-removing-layers)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.growth.growable import TaskSizes
from evodevo.growth.h_model.growable import GrowableHModel
from evodevo.growth.h_model.growing import GrowingHModel
from evodevo.growth.spec import FitnessSettings
from evodevo.h_model.model import HModel
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import PAPER, archetype, start_zoo
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import validate
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, IMAGE, LABELS, NEXT, TEXT, small_batch
from evodevo.training.precision import decide

WIDTH = 16
VARIANTS: list[dict[str, Any]] = [
    {},
    {"aggregation": "attention"},
    {"inflow_gate": False},
    {"disabled": [1]},
    {"router": {"head": "linear", "pool": "max"}},
    {"router": {"head": "channel"}},
    {"router": {"head": "independent"}},
    {"router": {"head": "constant"}},
    {"router": {"gate": "softmax_in"}},
    {"router": {"gate": "softmax_out"}},
    {"router": {"gate": "sparsemax_in"}},
    {"normaliser": "softmax"},
    {"self_routing": False},
    {"inference": {"mode": "target_topm", "m": 2}},
    {"inference": {"mode": "source_topk", "k": 2}},
    {"halting": {"rule": "output_mass", "threshold": 0.6}},
]
EVERY = {"stream": "carried", "carried": {"m": 3}}
"""All of three layers run."""
CARRIED: list[dict[str, Any]] = [
    {"stream": "carried"},
    {"stream": "carried", "carried": {"m": 2, "source_bias": True, "iteration_bias": True}},
    {"stream": "carried", "carried": {"m": 1, "cap": 2, "iteration_router": True}},
    EVERY,
    {**EVERY, "disabled": [1], "self_routing": False},
    {"stream": "carried", "halting": {"rule": "output_mass", "threshold": 0.6}},
]
CODES = InputSpec("codes", "vector", size=9)
ROUTED = {
    "inputs": (CODES,),
    "stream": "carried",
    "carried": {"routes": {"input": "codes", "slots": [0, 3], "layers": [0, 1]}},
}
STREAMS = pytest.mark.parametrize("stream", [{}, EVERY], ids=["paper", "carried"])


def module(family: str, name: str, **more: Any) -> ZooModule:
    return ZooModule(id=name, genotype=archetype(family, WIDTH), **more)


def hidden(*families: str) -> tuple[GenotypeLayer, ...]:
    return tuple(GenotypeLayer(module=module(one, f"{one}-{place}")) for place, one in enumerate(families))


def grown(
    layers: tuple[Layer, ...] | None = None, inputs: Any = (TEXT, IMAGE), outputs: Any = (CLASS, LABELS), **more: Any
) -> GrowingHModel:
    """Double precision, in evaluation mode, with routers that have learnt something."""
    chosen = layers or (*hidden("mlp", "transformer"), TransformerLayer(heads=2))
    values = {
        "stream": "paper",
        "width": WIDTH,
        "iterations": 2,
        "input_blocks": 0,
        "output_blocks": 0,
        "hidden": [one.model_dump(mode="json") for one in chosen],
        **more,
    }
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = HModel(validate(HModelStructure, values, what="a structure"), inputs, outputs)
        for name, parameter in model.named_parameters():
            if "router" in name:
                parameter.data += 0.2 * torch.randn_like(parameter)
    return growing(model.double().eval())


def batch(inputs: Any = (TEXT, IMAGE), outputs: Any = (CLASS, LABELS)) -> dict[str, Tensor]:
    return small_batch(inputs, outputs, padded=True)


def growing(model: HModel) -> GrowingHModel:
    return GrowingHModel(model, GrowableHModel.of(model.structure), lambda origins: None)


def answers(one: GrowingHModel, given: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return torch.cat([said.flatten(1) for said in one.model(given).values()], 1)


def born(one: GrowingHModel, factor: float, family: str = "mlp", **more: Any) -> None:
    one.births["child"] = factor
    one.insert(module(family, "child", birth_event=1, **more))


@pytest.mark.parametrize(
    ("changes", "parents"),
    [
        *((one, ()) for one in VARIANTS + CARRIED),
        *((one, ("mlp-0",)) for one in VARIANTS[:3] + VARIANTS[10:12] + CARRIED),
    ],
    ids=str,
)
def test_a_birth_changes_no_answer_and_then_trains(changes: dict[str, Any], parents: tuple[str, ...]) -> None:
    one, given = grown(**changes), batch()
    before = answers(one, given)
    born(one, 0.0, parents=parents)
    torch.testing.assert_close(answers(one, given), before, rtol=0, atol=1e-12)
    one.births = {"child": 0.3}
    one.model.train().loss(given).backward()  # type: ignore[no-untyped-call]
    child = one.model.core.layers[one.structure.place("child")]
    sizes = [0.0 if p.grad is None else float(p.grad.norm()) for p in child.parameters()]
    some_run = changes.get("stream") == "carried" and "disabled" not in changes
    if not some_run and (changes.get("router", {}).get("gate") != "sparsemax_in" or parents):
        assert max(sizes) > 0, "nothing reaches the child"
    one.model.eval()
    one.births = {"child": 1e-9}
    if "inference" not in changes:  # else a trace of a layer takes a place
        torch.testing.assert_close(answers(one, given), before, rtol=0, atol=1e-6)


@STREAMS
@pytest.mark.parametrize("family", PAPER)
def test_every_family_is_born_unheard(family: str, stream: dict[str, Any]) -> None:
    one, given = grown(**stream, **({"disabled": [1]} if stream else {})), batch()
    before = answers(one, given)
    born(one, 0.0, family)
    torch.testing.assert_close(answers(one, given), before, rtol=0, atol=1e-12)
    one.births = {}
    assert not torch.allclose(answers(one, given), before, atol=1e-6)


def test_a_child_is_called_as_loudly_as_its_parent() -> None:
    one, given = grown(), batch()
    born(one, 1.0, parents=("mlp-0",))
    weights = {name: value.clone() for name, value in one.weights("mlp-0").items()}
    one.model.core.layers[one.structure.place("child")].load_state_dict(weights)
    trace = one.model.trace(given)
    parent, child = one.structure.place("mlp-0"), one.structure.place("child")
    torch.testing.assert_close(torch.tensor(trace.inflow[..., child]), torch.tensor(trace.inflow[..., parent]))
    torch.testing.assert_close(torch.tensor(trace.norms[..., child]), torch.tensor(trace.norms[..., parent]))


@pytest.mark.parametrize("parents", [(), ("mlp-0",)])
@pytest.mark.parametrize("changes", CARRIED, ids=str)
def test_in_a_softmax_a_child_is_a_rival_of_one_other_layer(changes: dict[str, Any], parents: tuple[str, ...]) -> None:
    """Its row is that of its parent, or of some other one, apart from a little noise, which is drawn from its seed."""
    one, twin = grown(**changes), grown(**changes)
    for growing_model in (one, twin):
        torch.rand(1)
        born(growing_model, 1.0, parents=parents, seed=7)
    router = one.model.core.router  # type: ignore[union-attr]
    child = one.structure.place("child")
    enabled = [place for place in range(child) if place not in one.model.structure.disabled]
    tables = [table for table in (router.source_bias, router.moment_bias) if table is not None]
    alike = []
    for place in enabled:
        differences = [float((one.weight[child] - one.weight[place]).detach().abs().max()) for one in router.maps()]
        same = all(bool(linear.bias[child] == linear.bias[place]) for linear in router.maps())
        same = same and all(bool((table[:, child] == table[:, place]).all()) for table in tables)
        if router.source_bias is not None:
            first = one.model.core.input_count
            same = same and torch.equal(router.source_bias[first + child], router.source_bias[first + place])
        if same and 0 < max(differences) < 0.15:
            alike.append(place)
    assert len(alike) == 1
    assert not parents or alike == [0]
    twins = twin.model.core.router.maps()  # type: ignore[union-attr]
    assert all(torch.equal(a.weight, b.weight) for a, b in zip(router.maps(), twins, strict=True))


def test_where_one_layer_runs_a_child_takes_a_part_of_its_parents_samples() -> None:
    one = grown(hidden("mlp", "transformer"), **CARRIED[0])
    given = small_batch((TEXT, IMAGE), (CLASS, LABELS), padded=True, count=64)
    one.model.core.runner.reset()
    before = answers(one, given)
    parent_ran = list(one.model.core.runner.rows)
    parent = ("mlp-0", "transformer-1")[parent_ran.index(max(parent_ran))]
    born(one, 1.0, parent.split("-")[0], parents=(parent,), seed=2)
    weights = {name: value.clone() for name, value in one.weights(parent).items()}
    one.model.core.layers[one.structure.place("child")].load_state_dict(weights)
    one.model.core.runner.reset()
    after = answers(one, given)
    ran = one.model.core.runner.rows
    assert ran[one.structure.place("child")] > 0
    assert ran[one.structure.place(parent)] > 0
    assert sum(ran) == sum(parent_ran)
    assert not torch.equal(after, before), "two share what one had, so that each has less"


DENSE = [one for one in VARIANTS + CARRIED if not {"disabled", "inference", "halting"} & one.keys()]


@pytest.mark.parametrize("changes", DENSE, ids=str)
def test_leaving_out_is_what_removing_would_be(changes: dict[str, Any]) -> None:
    one, given = grown(**changes), batch()
    seen = one.probe([given], FitnessSettings())
    for name in one.live:
        other = growing(copy.deepcopy(one.model))
        other.remove(name)
        without = other.probe([given], FitnessSettings())
        assert without.dense_loss - seen.dense_loss == pytest.approx(seen.impact[name], abs=1e-9)
    assert sum(seen.usage.values()) == pytest.approx(1)


@STREAMS
def test_a_probe_says_what_it_says_of_zoos(stream: dict[str, Any]) -> None:
    one, given = grown(**stream), batch()
    state = {name: value.clone() for name, value in one.model.state_dict().items()}
    torch.manual_seed(0)
    draw = torch.get_rng_state()
    parts = [{key: value[:2] for key, value in given.items()}, {key: value[2:] for key, value in given.items()}]
    whole, pieces = one.probe([given], FitnessSettings()), one.probe(parts, FitnessSettings())
    assert torch.equal(torch.get_rng_state(), draw)
    assert all(torch.equal(value, state[name]) for name, value in one.model.state_dict().items())
    assert whole.ids == one.live == ("mlp-0", "transformer-1", "transformer-2")
    assert whole.loss == whole.dense_loss
    for name in whole.ids:
        assert pieces.impact[name] == pytest.approx(whole.impact[name], abs=1e-9)
        assert pieces.usage[name] == pytest.approx(whole.usage[name], abs=1e-6)
        assert (pieces.alone[name] == whole.alone[name]).all()
    assert whole.genotype_distance.of("mlp-0", "transformer-1") > 0
    assert 0 < whole.output_distance.of("mlp-0", "transformer-1") <= 1
    zero = one.probe([given], FitnessSettings(ablation="zero"))
    assert any(abs(zero.impact[name] - whole.impact[name]) > 1e-9 for name in whole.ids)


BY_POSITION = {**CARRIED[0], "router": {"pool": "token"}, "layers": hidden("mlp", "transformer", "mlp")}


@pytest.mark.parametrize("changes", [{}, CARRIED[0], CARRIED[1], EVERY, BY_POSITION], ids=str)
def test_a_layer_set_to_zero_answers_zero(changes: dict[str, Any]) -> None:
    one, given = grown(**changes), batch()
    seen = one.probe([given], FitnessSettings(ablation="zero"))
    moved = 0.0
    for name, place in one.structure.places.items():
        hook = one.model.core.layers[place].register_forward_hook(
            lambda layer, arguments, output: replace(output, y=torch.zeros_like(output.y))
        )
        zeroed = one.probe([given], FitnessSettings())
        hook.remove()
        assert zeroed.dense_loss - seen.dense_loss == pytest.approx(seen.impact[name], abs=1e-9)
        moved = max(moved, abs(seen.impact[name]))
    assert moved > 1e-4


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("stream", [{}, CARRIED[1]], ids=["paper", "carried"])
def test_where_positions_decide_usage_is_a_mean_over_real_ones(stream: dict[str, Any], padded: bool) -> None:
    one = grown(**stream, router={"pool": "token"})
    given = small_batch((TEXT, IMAGE), (CLASS, LABELS), padded=padded)
    messages, moments = one.model.inputs(given), []
    with torch.no_grad():
        one.model._final(messages.values, messages.masks, messages.places, moments)
    count = len(given["text"])
    real = torch.ones(count, messages.values.shape[2], dtype=torch.bool)
    if messages.masks is not None:
        real = messages.masks.any(1)
    assert bool(real.all()) != padded
    shares = torch.zeros(count, 3, dtype=torch.float64)
    for moment in moments[:-1]:  # the last one reaches outputs alone
        for sample in range(count):
            shares[sample] += moment.inflow[sample, real[sample], :3].mean(0)
    expected = (shares / shares.sum(-1, keepdim=True)).mean(0)
    usage = one.probe([given], FitnessSettings()).usage
    assert [usage[name] for name in one.live] == pytest.approx(expected.tolist(), abs=1e-9)


def test_a_copy_has_no_distance_and_equal_usage() -> None:
    one, given = grown(hidden("mlp", "transformer")), batch()
    born(one, 1.0, parents=("mlp-0",))
    weights = {name: value.clone() for name, value in one.weights("mlp-0").items()}
    one.model.core.layers[one.structure.place("child")].load_state_dict(weights)
    seen = one.probe([given], FitnessSettings())
    assert seen.output_distance.of("mlp-0", "child") == pytest.approx(0, abs=1e-6)
    assert seen.usage["child"] == pytest.approx(seen.usage["mlp-0"], abs=1e-6)


@STREAMS
def test_ids_stay_when_places_move(stream: dict[str, Any]) -> None:
    one = grown(**stream)
    opaque = {name: value.clone() for name, value in one.weights("transformer-2").items()}
    one.remove("mlp-0")
    born(one, 1.0)
    assert one.live == ("transformer-1", "transformer-2", "child")
    assert all(torch.equal(value, opaque[name]) for name, value in one.weights("transformer-2").items())
    assert one.structure.structure.hidden == one.model.structure.hidden
    assert set(one.structure.opaque) == {"transformer-2"}
    assert GrowableHModel.of(one.model.structure).modules[2].birth_event == 1


def test_rates_and_factors_follow_the_layer() -> None:
    one = grown()
    one.newborn_rates["child"] = 0.1
    born(one, 0.5)
    one.remove("mlp-0")
    assert one.model.births == {2: 0.5}
    assert one.model.learning_rates() == {"core.layers.2.": 0.1}
    one.remove("child")
    assert one.model.births == {}
    assert one.model.learning_rates() == {}


@pytest.mark.slow
@STREAMS
def test_the_others_learn_before_a_layer_goes(stream: dict[str, Any]) -> None:
    one = grown(**stream)
    one.model.float()
    lessons = [batch() for _ in range(2)]
    theirs = {name: value.clone() for name, value in one.weights("mlp-0").items()}
    ends = {name: value.clone() for name, value in one.model.outputs.state_dict().items()}
    routing = {name: value.clone() for name, value in one.model.state_dict().items() if "router" in name}
    done = one.distil(
        "mlp-0",
        lambda number: lessons[number % 2],  # type: ignore[arg-type,return-value]
        60,
        tolerance=0.0,
        batch_size=4,
        seed=1,
        precision=decide("cpu"),
    )
    assert done.state == "finished"
    assert done.after < 0.5 * done.before
    assert all(torch.equal(value, theirs[name]) for name, value in one.weights("mlp-0").items())
    assert all(torch.equal(value, ends[name]) for name, value in one.model.outputs.state_dict().items())
    moved = [not torch.equal(one.model.state_dict()[name], value) for name, value in routing.items()]
    assert any(moved), "routers learn too"
    assert one.model.births == {}
    assert all(parameter.requires_grad for parameter in one.model.parameters())


@pytest.mark.parametrize("stream", [{}, {"stream": "carried", "carried": {"m": 2}}], ids=["paper", "carried"])
def test_gates_have_a_gradient_through_an_inner_step(stream: dict[str, Any]) -> None:
    one, given = grown(hidden("mlp", "transformer"), **stream), batch()
    whole = one.unroll(given, given)
    named = {name.split(".")[1] for name in whole.parameters}
    assert named == ({"layers", "router"} if stream else {"layers", "routers", "input_routers"})
    gates = {name: torch.ones((), dtype=torch.float64, requires_grad=True) for name in one.live}
    parameters = {name: value.clone().requires_grad_() for name, value in whole.parameters.items()}
    inner = whole.inner_loss(parameters, gates)
    assert inner.item() == pytest.approx(one.model.loss(given).item())
    slopes = torch.autograd.grad(inner, list(parameters.values()), create_graph=True, allow_unused=True)
    stepped = {
        name: value if slope is None else value - 0.1 * slope
        for (name, value), slope in zip(parameters.items(), slopes, strict=True)
    }
    found = torch.autograd.grad(whole.outer_loss(stepped, gates), list(gates.values()))
    assert all(bool(one.isfinite()) and float(one.abs()) > 0 for one in found)
    assert one.model.core.gates is None


@pytest.mark.parametrize("stream", [{}, {"stream": "carried"}], ids=["paper", "carried"])
def test_a_causal_model_has_causal_children_only(stream: dict[str, Any]) -> None:
    structure = {"stream": "paper", "causal": True, "width": WIDTH, "iterations": 2, **stream}
    one = grown(hidden("mlp"), (TEXT,), (NEXT,), **structure)
    given = batch((TEXT,), (NEXT,))
    before = answers(one, given)
    with pytest.raises(UsageError, match="looks at later positions"):
        one.insert(module("lstm", "child"))
    assert torch.equal(answers(one, given), before)
    assert "later positions" in str(one.structure.misfit(archetype("lstm", WIDTH)))
    assert one.structure.misfit(archetype("mlp", WIDTH)) is None
    born(one, 0.0)
    torch.testing.assert_close(answers(one, given), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("layers", "more", "words"),
    [
        (None, {"window": 1}, "with a window cannot grow"),
        (None, {"window": 1, **EVERY}, "with a window cannot grow"),
        (None, ROUTED, "with given routes cannot grow"),
        ((*hidden("mlp"), *hidden("mlp")), {}, "have the id 'mlp-0'"),
    ],
)
def test_models_that_cannot_grow_are_refused(layers: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        grown(layers, **more)


def test_what_cannot_be_inserted_leaves_the_model_as_it_was() -> None:
    one, given = grown(), batch()
    before = answers(one, given)
    twin = module("mlp", "child")
    with pytest.raises(UsageError, match="function_preserving"):
        one.insert(twin, twin_of="mlp-0")
    with pytest.raises(RuntimeError):
        one.insert(twin, state={})
    with pytest.raises(UsageError, match="ids are for ever"):
        one.insert(module("mlp", "mlp-0"))
    with pytest.raises(UsageError, match="mlp-9"):
        one.remove("mlp-9")
    assert torch.equal(answers(one, given), before)
    assert one.live == ("mlp-0", "transformer-1", "transformer-2")
    for name in ("mlp-0", "transformer-1"):
        one.remove(name)
    with pytest.raises(UsageError, match="last enabled hidden layer"):
        one.remove("transformer-2")


def test_a_pool_of_all_families_costs_what_the_model_has() -> None:
    layers: tuple[Layer, ...] = (*(GenotypeLayer(module=one) for one in start_zoo(WIDTH)), MLPLayer())
    one = grown(layers)
    cost = one.structure.cost(TaskSizes(one.model.input_specs, one.model.output_specs))
    assert cost.parameters + cost.embedding_parameters == sum(p.numel() for p in one.model.parameters())
    child = one.structure.model_copy(update={"modules": (*one.structure.modules, module("lstm", "child"))})
    larger = child.cost(TaskSizes(one.model.input_specs, one.model.output_specs))
    born(one, 1.0, "lstm")
    assert larger.parameters + larger.embedding_parameters == sum(p.numel() for p in one.model.parameters())
