"""What is shared between passes changes no decision, and a part of the modules has a part of it."""

from __future__ import annotations

import pytest
import torch

from evodevo.spaces.zoo_structure import ZooRouterStructure
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
