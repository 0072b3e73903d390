"""What is shared between passes changes no decision, and a part of the modules has a part of it."""

from __future__ import annotations

import pytest
import torch

from evodevo.module_zoo.spec import ZooRouterStructure
from evodevo.testing.module_routers import IDS, ModuleRouterCase

STRUCTURES = [
    ZooRouterStructure(heads=2, gate=gate, synergy=synergy)
    for gate in ("sparsemax", "softmax")
    for synergy in ("similar", "complement", "bilinear", "off")
] + [ZooRouterStructure(kind=kind) for kind in ("mlp_gate", "architecture", "mean")]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("places", [range(len(IDS)), (0, 2, 5), (4, 1), (3,)])
def test_a_part_of_what_is_shared_is_a_part_of_the_zoo(structure: ZooRouterStructure, places: tuple[int, ...]) -> None:
    router = ModuleRouterCase(structure).build()
    source = torch.Generator().manual_seed(3)
    query = torch.randn(5, 16, generator=source, dtype=torch.float64)
    outputs = torch.randn(5, len(IDS), 16, generator=source, dtype=torch.float64)
    ids = [IDS[place] for place in places]
    wanted = router.decide(query, outputs[:, list(places)], ids=ids)
    found = router.decide(query, router.relate(query, outputs).only(places), ids=ids)
    torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.logits, wanted.logits, rtol=0, atol=1e-12)
    assert torch.equal(found.legal, wanted.legal)


SWITCHED = [
    ZooRouterStructure(heads=2, synergy_self=True),
    ZooRouterStructure(heads=2, synergy_self=True, synergy="bilinear", synergy_activation="tanh"),
    ZooRouterStructure(heads=2, synergy="complement", synergy_activation="relu"),
    ZooRouterStructure(heads=2, keys="genotype"),
]


@pytest.mark.parametrize("structure", [*STRUCTURES, *SWITCHED])
@pytest.mark.parametrize("size", [1.0, 30.0])
@pytest.mark.parametrize("count", [2, len(IDS)])
def test_each_left_out_is_a_zoo_without_it(structure: ZooRouterStructure, size: float, count: int) -> None:
    """Also where one module agrees so much more than others that it hides them."""
    router, ids = ModuleRouterCase(structure).build(), IDS[:count]
    source = torch.Generator().manual_seed(4)
    query = torch.randn(5, 16, generator=source, dtype=torch.float64)
    outputs = size * torch.randn(5, count, 16, generator=source, dtype=torch.float64)
    outputs[:, 1] *= size
    contribution = torch.rand(count, generator=source, dtype=torch.float64)
    each = router.each_left_out(router.relate(query, outputs))
    assert len(each) == count
    for place, relations in enumerate(each):
        rest = [one for one in range(count) if one != place]
        given = {"ids": [ids[one] for one in rest], "contribution": contribution[rest], "dense": True}
        wanted = router.decide(query, outputs[:, rest], **given)
        found = router.decide(query, relations, **given)
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-10)


def test_what_was_summed_before_does_not_count_for_fewer_modules() -> None:
    """Newborns and illegal modules are left out of the sum: then it is made again."""
    router = ModuleRouterCase(ZooRouterStructure(heads=2, norm=False)).build()
    source = torch.Generator().manual_seed(5)
    query = torch.randn(5, 16, generator=source, dtype=torch.float64)
    outputs = torch.randn(5, len(IDS), 16, generator=source, dtype=torch.float64)
    births = torch.tensor([1.0] * (len(IDS) - 2) + [0.5], dtype=torch.float64)
    for place, relations in enumerate(router.each_left_out(router.relate(query, outputs))):
        rest = [one for one in range(len(IDS)) if one != place]
        legal = torch.tensor([True] * (len(rest) - 1) + [False])
        for given in ({"births": births}, {"legal": legal}):
            wanted = router.decide(query, outputs[:, rest], ids=[IDS[one] for one in rest], **given)
            found = router.decide(query, relations, ids=[IDS[one] for one in rest], **given)
            torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-12)
