"""Modules that answer together: their mean, and that none of them knows of another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.baselines.ensemble_model import ModuleEnsemble
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import archetype
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.testing.networks import CLASS, IMAGE, LABELS, TEXT, small_batch

OUTPUTS = (CLASS, LABELS)
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
