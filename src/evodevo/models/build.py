"""From genome to network: one dispatch table, and seeds that depend on nothing else."""

from __future__ import annotations

from typing import Any

import torch

from evodevo.models.backbone import Backbone
from evodevo.models.network import Network
from evodevo.models.settings import LanguageModelSettings
from evodevo.spaces.backbone import BackboneSpace
from evodevo.spaces.backbone_genome import BackboneGenome
from evodevo.spaces.base import Space
from evodevo.spaces.networks import EnsembleNetwork, HModelNetwork, NetworkSpec
from evodevo.tasks.base import InputSpec, OutputSpec


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


def build(space: Space[Any], genome: Any, settings: Any, seed: int) -> torch.nn.Module:
    """The network of a genome of any space."""
    return BUILDERS[space.name](space, genome, settings, seed)  # type: ignore[no-any-return]


def build_network(
    spec: NetworkSpec, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...], seed: int
) -> Network:
    """The network of a description over the inputs and outputs of a task; equal seeds give equal parameters.

    The global random stream is left as it was.
    """
    from evodevo.models.ensemble import Ensemble
    from evodevo.models.h_model import HModel
    from evodevo.models.stacks import LayerStack

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(spec, HModelNetwork):
            return HModel(spec.structure, inputs, outputs)
        if isinstance(spec, EnsembleNetwork):
            return Ensemble(spec.structure, inputs, outputs)
        return LayerStack(spec.structure, inputs, outputs)
