"""Newborns answer as their parents where they can, and can be made again bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo.errors import DataError
from evodevo.growth.edit_spec import TensorSource
from evodevo.growth.spec import BirthSettings
from evodevo.growth.zoo.bank import ModuleBank, start_from
from evodevo.growth.zoo.birth import ModuleParent, inherit, rebuild, same_nodes
from evodevo.growth.zoo.splice import Origin, splice
from evodevo.module_zoo.modules.attributes import Attribute
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.families import check_genotype
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import ARCHETYPES, archetype, mutate, sample, with_lineage
from evodevo.operators.base import Operator
from evodevo.training.parts import part_digest

torch.set_num_threads(1)

WIDTH = 16
FAMILIES = tuple(ARCHETYPES.names())


def answer(module: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 7, WIDTH, generator=generator).to(next(module.parameters()).dtype)
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    with torch.no_grad():
        y: Tensor = module.eval()(x, mask=mask).y
    return y.masked_fill(~mask.unsqueeze(-1), 0)


def grown_up(genotype: ModuleGenotype, seed: int = 1) -> Operator:
    """A module whose every number has moved, as after training."""
    module = build_module(genotype, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return module


def parent_of(genotype: ModuleGenotype, module: nn.Module) -> ModuleParent:
    state = {name: value.clone() for name, value in module.state_dict().items()}
    return ModuleParent(genotype, state, part_digest(state))


def born(
    child: ModuleGenotype, parent: ModuleGenotype, how: BirthSettings | None = None, seed: int = 7
) -> tuple[Operator, Operator, tuple[TensorSource, ...]]:
    """Newborn, parent and record."""
    own = grown_up(parent)
    module = build_module(child, seed)
    record = inherit(
        module, child, {"own": parent_of(parent, own)}, how or BirthSettings(), same_nodes(child, parent, "own"), seed
    )
    return module, own, record


EXACT: tuple[tuple[str, dict[str, Attribute], dict[str, Attribute]], ...] = (
    ("transformer", {}, {"feedforward_factor": 3.5}),
    ("transformer", {}, {"dropout": 0.3}),
    ("transformer", {}, {"depth": 3}),
    ("transformer", {"form": "sequential"}, {"depth": 2, "feedforward_factor": 3.0}),
    ("mlp", {"depth": 2}, {"hidden_factor": 4.0}),
    ("mlp", {"outer": "sigmoid"}, {"hidden_factor": 4.0}),
    ("resnet1d", {}, {"width_factor": 1.8}),
    ("resnet1d", {}, {"kernel": 7}),
    ("resnet1d", {}, {"depth": 4}),
    ("resnet1d", {}, {"depth": 3, "kernel": 5, "width_factor": 1.3}),
    ("lstm", {}, {"hidden_factor": 0.9}),
    ("lstm", {"layers": 2}, {"hidden_factor": 0.9}),
    ("lstm", {"both_ways": False}, {"both_ways": True}),
    ("lstm", {"both_ways": False, "layers": 2}, {"both_ways": True, "hidden_factor": 0.7}),
    ("cnn", {}, {"channel_factor": 0.8}),
    ("cnn", {"kernels": (3, 7)}, {"kernels": (1, 3, 5, 7)}),
    ("cnn", {"kernels": (5,)}, {"kernels": (3, 5, 9), "channel_factor": 0.9}),
    ("squeeze_excite", {}, {"reduction": 2}),
    ("operator", {}, {}),
)


@pytest.mark.parametrize("inheritance", ["function_preserving", "split"])
@pytest.mark.parametrize(("family", "before", "after"), EXACT)
def test_what_grows_answers_as_before(
    family: str, before: dict[str, Attribute], after: dict[str, Attribute], inheritance: Any
) -> None:
    """docs/spec/architect_thyself.md#birth."""
    parent, child = archetype(family, WIDTH, **before), archetype(family, WIDTH, **{**before, **after})
    newborn, own, record = born(child, parent, BirthSettings(inheritance=inheritance))
    torch.testing.assert_close(answer(newborn), answer(own), rtol=0, atol=1e-5)
    assert {one.tensor for one in record} == set(newborn.state_dict())
    if child.graph == parent.graph:
        assert {one.rule for one in record} == {"copied"}
    # What is silent can learn: nothing is stuck at 0.
    newborn.train()
    y = newborn(torch.randn(4, 6, WIDTH, generator=torch.Generator().manual_seed(1))).y
    y.square().sum().backward()
    assert all(bool(one.grad.isfinite().all()) for one in newborn.parameters() if one.grad is not None)
    padded = {one.tensor for one in record if one.rule == "padded" and one.tensor.endswith("weight")}
    gradients = {name: one.grad for name, one in newborn.named_parameters() if name in padded}
    assert all(one is not None and bool(one.any()) for one in gradients.values())


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), family=st.sampled_from(("mlp", "transformer", "resnet1d", "lstm")))
def test_units_may_come_in_any_number(seed: int, family: str) -> None:
    rng = np.random.default_rng(seed)
    key = {"mlp": "hidden_factor", "transformer": "feedforward_factor", "resnet1d": "width_factor"}.get(
        family, "hidden_factor"
    )
    parent = sample(family, WIDTH, rng)
    size = float(str(parent.attributes[key])) * rng.uniform(1, 1.6)
    top = {"mlp": 4.0, "transformer": 4.0, "resnet1d": 2.0, "lstm": 1.0}[family]
    child = archetype(family, WIDTH, **{**parent.attributes, key: min(size, top)})
    newborn, own, _ = born(child, parent)
    # In float32, sums of another length are rounded differently, and by more than this on some processors.
    torch.testing.assert_close(answer(newborn.double()), answer(own.double()), rtol=0, atol=1e-9)


def remade(
    child: ModuleGenotype,
    record: tuple[TensorSource, ...],
    parents: Mapping[str, ModuleParent],
    how: BirthSettings,
    seed: int,
) -> dict[str, Tensor]:
    blobs = {parent.digest: parent.state for parent in parents.values()}
    before = {name: parent.genotype for name, parent in parents.items()}
    told = tuple(TensorSource.model_validate_json(one.model_dump_json()) for one in record)
    return rebuild(child, seed, told, lambda digest: blobs[digest], before=before, how=how)


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("inheritance", ["function_preserving", "split", "soft", "copy_noise"])
@pytest.mark.parametrize("family", FAMILIES)
def test_mutants_run_and_are_made_again(family: str, inheritance: Any) -> None:
    how = BirthSettings(inheritance=inheritance)
    rng = np.random.default_rng(3)
    for seed in range(3):
        parent = sample(family, WIDTH, rng)
        child = mutate(parent, rng, 3.0)
        newborn, own, record = born(child, parent, how, seed)
        assert answer(newborn).isfinite().all()
        assert any(one.parent == "own" for one in record) or family == "operator"
        parents = {"own": parent_of(parent, own)}
        assert same(remade(child, record, parents, how, seed), newborn.state_dict())


def crossed(kind: Any, seed: int, how: dict[str, Any], names: tuple[str, str] | None = None) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    picked = names or tuple(FAMILIES[int(one)] for one in rng.integers(len(FAMILIES), size=2))
    modules = [
        ZooModule(id=name, genotype=with_lineage(sample(family, WIDTH, rng), name))
        for name, family in zip(("first", "second"), picked, strict=True)
    ]
    chosen = BirthSettings(splice=kind, **how)
    result = splice(modules[0], modules[1], rng, chosen)
    owns = {one.id: grown_up(one.genotype, 1 + place) for place, one in enumerate(modules)}
    parents = {one.id: parent_of(one.genotype, owns[one.id]) for one in modules}
    newborn = build_module(result.child, seed)
    record = inherit(newborn, result.child, parents, chosen, result.correspondence, seed)
    return result, owns, parents, newborn, record, chosen


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replace", "insert"])
def test_hybrids_build_run_and_are_made_again(kind: str) -> None:
    for seed in range(60):
        result, owns, parents, newborn, record, how = crossed(kind, seed, {})
        assert sum(one.numel() for one in newborn.parameters()) == genotype_parameters(result.child)
        said = answer(newborn)
        assert said.shape == (3, 7, WIDTH)
        assert said.isfinite().all()
        if kind == "insert":
            torch.testing.assert_close(said, answer(owns["first"]), rtol=0, atol=1e-5)
        if seed % 6 == 0:
            newborn(torch.randn(2, 5, WIDTH)).y.sum().backward()
            assert all(bool(one.grad.isfinite().all()) for one in newborn.parameters() if one.grad is not None)
            assert same(remade(result.child, record, parents, how, seed), newborn.state_dict())


@pytest.mark.slow
def test_hybrids_of_hybrids_run_and_are_made_again() -> None:
    rng = np.random.default_rng(2)
    zoo = [ZooModule(id=name, genotype=with_lineage(sample(name, WIDTH, rng), name)) for name in FAMILIES]
    modules: dict[str, nn.Module] = {one.id: grown_up(one.genotype) for one in zoo}
    for number in range(24):
        a, b = (zoo[int(place)] for place in rng.choice(len(zoo), 2, replace=False))
        how = BirthSettings(splice="insert" if number % 3 == 0 else "replace", blend=0.7)
        result = splice(a, b, rng, how)
        check_genotype(result.child)
        assert all(
            node.lineage or node.id in {*result.joints, *result.projections} for node in result.child.graph.nodes
        )
        parents = {one.id: parent_of(one.genotype, modules[one.id]) for one in (a, b)}
        newborn = build_module(result.child, number)
        record = inherit(newborn, result.child, parents, how, result.correspondence, number)
        assert answer(newborn).isfinite().all()
        assert same(remade(result.child, record, parents, how, number), newborn.state_dict())
        zoo.append(ZooModule(id=f"hybrid-{number}", genotype=with_lineage(result.child, f"hybrid-{number}")))
        assert all(node.lineage for node in zoo[-1].genotype.graph.nodes)
        modules[zoo[-1].id] = newborn


def test_grafts_bring_their_weights() -> None:
    result, _, parents, newborn, record, _ = crossed("insert", 4, {}, ("mlp", "transformer"))
    state = newborn.state_dict()
    told = {one.tensor: one for one in record}
    graft = [name for name in state if any(f"/{node.replace('.', '/')}." in name for node in result.grafted)]
    assert graft
    for name in graft:
        source = told[name]
        assert source.parent == "second"
        assert source.rule == "copied"
        assert torch.equal(state[name], parents["second"].state[source.source])


def test_relatives_blend_and_strangers_do_not() -> None:
    """Units of one lineage correspond; of others they do not."""
    parent = with_lineage(archetype("transformer", WIDTH), "old")
    one, other = (parent_of(parent, grown_up(parent, seed)) for seed in (1, 2))
    stranger = parent_of(with_lineage(archetype("transformer", WIDTH), "new"), grown_up(parent, 3))
    for blend in (0.5, 1.0):
        for second, related in ((other, True), (stranger, False)):
            how = BirthSettings(blend=blend)
            child, parents = build_module(parent, 5), {"one": one, "other": second}
            origins: dict[str, Origin] = same_nodes(parent, parent, "one")
            record = inherit(child, parent, parents, how, origins, 5)
            share = blend if related else 1.0
            for name, value in child.state_dict().items():
                expected = share * one.state[name] + (1 - share) * second.state[name]
                torch.testing.assert_close(value, expected)
            assert {entry.rule for entry in record} == ({"blended"} if share < 1 else {"copied"})
            assert same(remade(parent, record, parents, how, 5), child.state_dict())


def test_soft_inheritance_is_eq_75_and_noise_has_its_size() -> None:
    genotype = archetype("mlp", WIDTH)
    for how in (BirthSettings(inheritance="soft", noise=0.0), BirthSettings(inheritance="copy_noise", noise=0.0)):
        newborn, own, _ = born(genotype, genotype, how)
        keep = how.keep if how.inheritance == "soft" else 1.0
        for name, value in newborn.state_dict().items():
            torch.testing.assert_close(value, keep * own.state_dict()[name])
    newborn, own, record = born(genotype, genotype, BirthSettings(inheritance="copy_noise", noise=0.5))
    name = "parts./block1/feed_forward.inner.weight"
    off = newborn.state_dict()[name] - own.state_dict()[name]
    fresh = build_module(genotype, 7).state_dict()[name]
    assert float(off.std()) == pytest.approx(0.5 * float(fresh.std()), rel=0.15)
    assert {one.rule for one in record} == {"blended"}


def test_an_edited_record_is_noticed() -> None:
    genotype = archetype("mlp", WIDTH)
    newborn, own, record = born(genotype, genotype)
    parents = {"own": parent_of(genotype, own)}
    wrong = (record[0].model_copy(update={"rule": "padded"}), *record[1:])
    with pytest.raises(DataError):
        remade(genotype, wrong, parents, BirthSettings(), 7)
    assert same(remade(genotype, record, parents, BirthSettings(), 7), newborn.state_dict())


def test_the_bank_gives_back_what_went() -> None:
    bank = ModuleBank(most=2)
    zoo = {name: archetype(name, WIDTH) for name in ("mlp", "lstm", "cnn")}
    states = {name: grown_up(genotype).state_dict() for name, genotype in zoo.items()}
    for name, genotype in zoo.items():
        bank.keep(name, genotype, states[name], part_digest(states[name]))
    assert bank.find(zoo["mlp"]) is None, "the oldest went"
    assert bank.find(archetype("lstm", WIDTH, hidden_factor=1.0)) is None
    found = bank.find(with_lineage(zoo["cnn"], "again"))
    assert found is not None
    newborn = build_module(zoo["cnn"], 9)
    record = start_from(newborn, found)
    assert same(newborn.state_dict(), states["cnn"])
    assert {one.rule for one in record} == {"bank"}
    again = rebuild(zoo["cnn"], 9, record, lambda _: states["cnn"], before={}, how=BirthSettings())
    assert same(again, states["cnn"])
    bank.keep("cnn-2", zoo["cnn"], states["cnn"])
    assert [one.name for one in bank.entries] == ["lstm", "cnn-2"]
    none = ModuleBank(most=0)
    none.keep("mlp", zoo["mlp"], states["mlp"])
    assert not none.entries
