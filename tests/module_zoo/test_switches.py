"""No switch of a zoo's structure is dead: what each says reaches the network, and none can be added unnoticed."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import (
    ContributionStructure,
    FusionStructure,
    StatisticsStructure,
    ZooLosses,
    ZooRouterStructure,
    ZooStructure,
)
from evodevo.networks.build import build_network
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.settings import Settings, merge, validate
from evodevo.testing.networks import CLASS, IMAGE, TEXT, small_batch

WIDTH = 16
BASE: dict[str, Any] = {
    "width": WIDTH,
    "extractor": {"blocks": 1},
    "statistics": {"rank": 2},
    "fusion": {"heads": 2},
    "router": {"heads": 2, "top_k": 2},
    "modules": [module.model_dump(mode="json") for module in (*start_zoo(WIDTH)[1:3], start_zoo(WIDTH)[5])],
    "dropout": 0.0,
}
PARTS: dict[str, type[Settings]] = {
    "": ZooStructure,
    "extractor": ExtractorStructure,
    "statistics": StatisticsStructure,
    "fusion": FusionStructure,
    "router": ZooRouterStructure,
    "contribution": ContributionStructure,
    "losses": ZooLosses,
}
ELSEWHERE = {
    "extractor.patches",  # below
    "width", "modules", "missing", "extractors",  # test_model.py here and in senses/
    "extractor.kind", "extractor.path", "extractor.digest", "extractor.train", "extractor.last",
    "extractor.learning_rate",  # of towers: tests/networks/test_towers.py
    "losses.replay",  # of edits: tests/growth/training/test_replay.py
}  # fmt: skip
KINDS = ("trained", "frozen")
BILINEAR = {"fusion": {"kind": "bilinear"}}
PREDICTED = {"router": {"keys": "predictor"}}
OTHER: dict[str, Any] = {
    "without": ["text"],
    "disabled": ["mlp-1"],
    "mode": "vector",
    "chunks": 4,
    "pool": "attention",
    "readout": 12,
    "dropout": 0.5,
    "modality_dropout": 0.9,
    "extractor.blocks": 0,
    "extractor.normalise": False,
    "extractor.positions": False,
    "extractor.activation": "relu",
    "extractor.self_attention": False,
    "statistics.kind": "mean",
    "statistics.rank": 1,
    "statistics.root": True,
    "fusion.kind": "symmetric",
    "fusion.query": "text",
    "fusion.values": "own",
    "fusion.heads": 1,
    "fusion.projection": False,
    "fusion.gate": "half",
    "fusion.temperature": "one",
    "fusion.norm": False,
    "fusion.relative_positions": True,
    "fusion.concat_query": True,
    "fusion.rank": 3,
    "router.kind": "mlp_gate",
    "router.heads": 1,
    "router.gate": "softmax",
    "router.synergy": "complement",
    "router.synergy_self": True,
    "router.synergy_activation": "tanh",
    "router.contribution": 5.0,
    "router.temperature": "one",
    "router.head_mix": "learned",
    "router.values": "paper",
    "router.residual": False,
    "router.norm": False,
    "router.identity": True,
    "router.top_k": 1,
    "router.train_top_k": "straight_through",
    "router.keys": "genotype",
    "router.predictor_hidden": 3,
    "contribution.rate": 0.9,
    "contribution.usage": 0.1,
    "contribution.impact": 0.1,
    "losses.align": 0.7,
    "losses.align_both": False,
    "losses.align_temperature": 0.5,
    "losses.load": 0.7,
    "losses.budget": 0.7,
    "losses.entropy": 0.7,
    "losses.entropy_until": 1.0,
    "losses.orthogonality": 0.7,
    "losses.orthogonality_per_sample": False,
    "losses.complexity": 0.7,
    "losses.z": 0.7,
    "losses.predictor": 0.3,
}
"""Switch -> another value than the default."""
UNDER: dict[str, dict[str, Any]] = {
    "chunks": {"mode": "vector"},
    "fusion.rank": BILINEAR,
    "router.predictor_hidden": PREDICTED,
    "losses.predictor": PREDICTED,
}
"""Switch -> under what it counts."""


@functools.cache
def built(changes: str) -> ModuleZoo:
    """A zoo in float64, nothing of which is silent; its weights are a function of their names and shapes."""
    structure = validate(ZooStructure, merge(BASE, json.loads(changes)), what="a small zoo")
    network = build_network(ModuleZooNetwork(structure=structure), (IMAGE, TEXT), (CLASS,), 0)
    network.double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if not name.startswith("alignment."):
                source = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                parameter.copy_(0.4 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return network


def looks(changes: str) -> Iterator[Tensor]:
    """What can be seen of a zoo: losses of two steps and what was contributed to them, then its answers."""
    network = built(changes)
    ids = network.live
    network.statistics.probed({one: float(number) for number, one in enumerate(ids)})
    network.train().set_progress(0.15)
    for step in range(2):
        torch.manual_seed(step)
        yield network.loss(small_batch((IMAGE, TEXT), (CLASS,), count=4, padded=True, seed=step)).detach()
        network.observe()
    yield network.statistics.contribution(ids).double()
    with torch.no_grad():
        yield network.eval()(small_batch((IMAGE, TEXT), (), count=4, padded=True, seed=2))["answer"]


@functools.cache
def seen(changes: str) -> tuple[Tensor, ...]:
    return tuple(looks(changes))


def written(*changes: dict[str, Any]) -> str:
    return json.dumps(functools.reduce(merge, changes, {}), sort_keys=True)


@pytest.mark.parametrize("switch", list(OTHER))
def test_a_switch_changes_something(switch: str) -> None:
    part, _, field = switch.rpartition(".")
    value = {field: OTHER[switch]}
    under = UNDER.get(switch, {})
    before, after = seen(written(under)), looks(written(under, {part: value} if part else value))
    assert all(one.isfinite().all() for one in before)
    assert any(
        one.shape != other.shape or not torch.allclose(one, other, rtol=1e-9, atol=1e-9)
        for one, other in zip(before, after, strict=True)
    )


def test_frozen_patches_are_there_and_do_not_learn() -> None:
    trained, frozen = (dict(built(written({"extractor": {"patches": one}})).named_parameters()) for one in KINDS)
    assert trained.keys() == frozen.keys()
    assert all(one.requires_grad for one in trained.values())
    fixed = {name for name, one in frozen.items() if not one.requires_grad}
    assert fixed
    assert all(name.startswith("senses.") and "image" in name for name in fixed)


def test_the_same_structure_is_seen_the_same() -> None:
    """Otherwise the test above would show nothing."""
    first = seen(written())
    built.cache_clear()
    seen.cache_clear()
    assert all(torch.equal(one, other) for one, other in zip(seen(written()), first, strict=True))


def test_every_switch_is_among_them() -> None:
    parts = {name for name in PARTS if name}
    fields = {
        f"{part}.{field}" if part else field for part, kind in PARTS.items() for field in kind.model_fields
    } - parts
    assert set(OTHER) | ELSEWHERE == fields
    assert not set(OTHER) & ELSEWHERE
