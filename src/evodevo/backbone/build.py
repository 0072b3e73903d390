"""From the genome of a backbone to the model, with seeds that depend on nothing else."""

from __future__ import annotations

import torch

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.model import Backbone
from evodevo.backbone.settings import LanguageModelSettings
from evodevo.backbone.space import BackboneSpace


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
