"""Opponents of the zoo: the laws of networks for every style, what each style states, and ensembles of modules."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.baselines.ensemble_model import ModuleEnsemble
from evodevo.module_zoo.baselines.model import TRUNKS, BaselineModel
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.baselines.spec import BaselineStructure, FusionStyle
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import archetype
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.networks.mixtures.spec import MixtureStyle
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.testing.network_suite import OUTPUTS, TASKS, NetworkCase, NetworkTests
from evodevo.testing.networks import CLASS, IMAGE, NEXT, TEXT, small_batch

STYLES = (*get_args(FusionStyle), *get_args(MixtureStyle))


def structure(style: str, **more: Any) -> BaselineStructure:
    small = {"width": 8, "heads": 2, "hidden": 12, "experts": 3, "dropout": 0.0, "capacity": 8.0}
    return BaselineStructure.model_validate({"style": style, "extractor": {"blocks": 1}, **small, **more})


def built(style: str, inputs: Any = (IMAGE, TEXT), **more: Any) -> BaselineModel:
    return build_network(BaselineNetwork(structure=structure(style, **more)), inputs, OUTPUTS, 0)


class TestOpponents(NetworkTests):
    """Every style over image and text; one side alone, and four inputs, in one style each."""

    @pytest.fixture(
        params=[
            *((style, "image and text") for style in STYLES),
            ("late_fusion", "vector"),
            ("cross_modality", "image, features and two texts"),
        ],
        ids="-".join,
    )
    def case(self, request: pytest.FixtureRequest) -> NetworkCase:
        style, task = request.param
        return NetworkCase(
            BaselineNetwork(structure=structure(style)),
            inputs=TASKS[task],
            counted="most" if style == "dyn_moe" else "exactly",
        )


@pytest.mark.parametrize(
    ("style", "terms"),
    [
        ("concat_mlp", {"task"}),
        ("late_fusion", {"task", "modalities"}),
        ("two_stream", {"task"}),
        ("switch", {"task", "balance", "z"}),
        ("st_moe", {"task", "balance", "z"}),
        ("soft_moe", {"task"}),
        ("dyn_moe", {"task", "balance"}),
    ],
)
def test_what_counts_while_training(style: str, terms: set[str]) -> None:
    network, batch = built(style).train(), small_batch((IMAGE, TEXT), OUTPUTS)
    network.loss(batch)
    assert set(network.terms) == terms
    network.eval().loss(batch)
    assert set(network.terms) == {"task"}


def test_the_loss_of_modalities_is_the_mean_of_their_own() -> None:
    """Each side's heads read that side's network alone: the other input has no part in its loss."""
    network = built("late_fusion", modality_loss=0.25).train()
    batch = small_batch((IMAGE, TEXT), OUTPUTS)
    first, second = network._think(batch).sides
    network.loss(batch)
    own = []
    for heads, side in zip(network.side_heads, (first, second), strict=True):
        answers = {name: head.score(side) for name, head in heads.items()}
        own.append(network.answers_loss(answers, batch))
    torch.testing.assert_close(network.terms["modalities"], 0.25 * (own[0] + own[1]) / 2)
    changed = network._think({**batch, "text": batch["text"].roll(1, 0)}).sides
    assert torch.equal(changed[0], first)
    assert not torch.equal(changed[1], second)
    assert not len(built("late_fusion", modality_loss=0.0).side_heads)


def test_tokens_and_samples_without_an_input_are_refused() -> None:
    for style in STYLES:
        with pytest.raises(UsageError, match="does not predict tokens"):
            BaselineModel(structure(style), (TEXT,), (NEXT,))
    batch = small_batch((IMAGE, TEXT), (CLASS,))
    with pytest.raises(UsageError, match="missing"):
        built("concat_mlp", missing=False)({**batch, "image/present": torch.tensor([True, False, True, True])})


def test_the_most_that_experts_can_do_is_stated() -> None:
    """``dyn_moe`` with thresholds that all tokens pass runs every expert on every token."""
    spec = BaselineNetwork(structure=structure("dyn_moe"))
    network = build_network(spec, (IMAGE, TEXT), OUTPUTS, 0).eval()
    for name, parameter in network.named_parameters():
        if name.endswith("thresholds"):
            parameter.data.fill_(-9.0)
    batch = small_batch((IMAGE, TEXT), OUTPUTS, count=1, length=TEXT.length)
    with torch.no_grad(), counting(network) as counter:
        network(batch)
    cost = spec.cost(inputs=(IMAGE, TEXT), outputs=OUTPUTS)
    assert cost.executed_flops == counter.flops


@pytest.mark.parametrize("style", STYLES)
def test_a_trunk_alone_has_a_cost(style: str) -> None:
    """Without a task: two modalities of so many positions each."""
    assert set(TRUNKS) == set(STYLES)
    spec = BaselineNetwork(structure=structure(style))
    trunk = TRUNKS[style](structure(style), 2)
    cost = spec.cost(length=5)
    assert cost.parameters == sum(parameter.numel() for parameter in trunk.parameters())
    assert spec.cost(length=5, mode="train").flops == 3 * cost.flops
    with pytest.raises(UsageError, match="length"):
        spec.cost()
    with pytest.raises(UsageError, match="length"):
        spec.cost(inputs=(IMAGE,), length=5)


# Modules that answer together


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "mlp": {"dropout": 0.0},
    "squeeze_excite": {},
    "transformer": {"dropout": 0.0},
}
MODULES = tuple(
    ZooModule(id=name.replace("_", "-"), genotype=archetype(name, 8, **attributes), seed=seed)
    for seed, (name, attributes) in enumerate(ATTRIBUTES.items())
)
STRUCTURE = ZooStructure(
    width=8,
    modules=MODULES,
    fusion=FusionStructure(heads=2),
    router=ZooRouterStructure(heads=2),
    extractor=ExtractorStructure(blocks=0, learning_rate=0.5),
    dropout=0.0,
)


def ensemble(**changes: Any) -> ModuleEnsemble:
    structure = STRUCTURE.model_copy(update=changes)
    return build_network(ModuleEnsembleNetwork(structure=structure), (IMAGE, TEXT), OUTPUTS, 0)


def members(whole: ModuleEnsemble) -> list[ModuleZoo]:
    return [member for member in whole.members if isinstance(member, ModuleZoo)]


def test_logits_are_the_mean_of_those_of_networks_with_one_module_each() -> None:
    whole, batch = ensemble().eval(), small_batch((IMAGE, TEXT), OUTPUTS)
    zoos = members(whole)
    assert [zoo.live for zoo in zoos] == [(name,) for name in whole.ids]
    assert whole.ids == tuple(module.id for module in STRUCTURE.modules)
    with torch.no_grad():
        each = [zoo(batch) for zoo in zoos]
        for name, logits in whole(batch).items():
            torch.testing.assert_close(logits, sum(one[name] for one in each) / 3)
    pairs = list(zip(zoos[0].senses.parameters(), zoos[1].senses.parameters(), strict=True))
    assert any(not torch.equal(one, other) for one, other in pairs), "they have senses of their own"


def test_a_member_learns_as_if_alone() -> None:
    """The gradient of each member is a third of what it would be without the others."""
    whole, alone, batch = ensemble().train(), ensemble().train(), small_batch((IMAGE, TEXT), OUTPUTS)
    whole.loss(batch).backward()
    assert set(whole.terms) >= {"task", "align"}
    for together, zoo in zip(members(whole), members(alone), strict=True):
        zoo.loss(batch).backward()
        for one, other in zip(together.parameters(), zoo.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None and other.grad is not None:
                torch.testing.assert_close(3 * one.grad, other.grad, atol=1e-6, rtol=1e-4)


def test_disabled_modules_do_not_answer_and_all_members_name_their_learning_rates() -> None:
    gone = STRUCTURE.modules[1].id
    assert gone not in ensemble(disabled=(gone,)).ids
    with pytest.raises(UsageError, match="at least one module"):
        ensemble(modules=())
    rates = ensemble().learning_rates()
    assert set(rates.values()) == {0.5}
    assert {name.split(".")[1] for name in rates} == {"0", "1", "2"}
