"""From genome to network: one dispatch table, and seeds that depend on nothing else."""

from __future__ import annotations

from typing import Any

import torch

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.model import Backbone
from evodevo.backbone.settings import LanguageModelSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.networks.base import Network
from evodevo.networks.spec import NetworkSpec
from evodevo.registry import Registry, table
from evodevo.search.space import Space
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec


def build_backbone(
    space: BackboneSpace, genome: BackboneGenome, settings: LanguageModelSettings, seed: int
) -> Backbone:
    """The model of a genome, with parameters that are a function of genome and seed alone.

    The global random stream is left as it was.
    """
    space.check(genome)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Backbone(space.plan(genome), space.settings.dimensions, settings)


BUILDERS: dict[str, Any] = {"backbone": build_backbone}

NETWORKS: Registry[Any] = table("network", "evodevo.networks")
"""Kind of a ``NetworkSpec`` -> ``build(structure, inputs, outputs) -> Network``."""
NETWORKS.add("stack", "evodevo.networks.stack:LayerStack")
NETWORKS.add("ensemble", "evodevo.networks.ensemble:Ensemble")


def build(space: Space[Any], genome: Any, settings: Any, seed: int) -> torch.nn.Module:
    """The network of a genome of any space."""
    return BUILDERS[space.name](space, genome, settings, seed)  # type: ignore[no-any-return]


def build_network(
    spec: NetworkSpec, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...], seed: int
) -> Network:
    """The network of a description over the inputs and outputs of a task; equal seeds give equal parameters.

    The global random stream is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: Network = NETWORKS.get(spec.kind)(spec.structure, inputs, outputs)
        return network
