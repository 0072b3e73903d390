"""The settings of a space of backbones."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.backbone.genome import MAX_LIVS
from evodevo.backbone.variation.levels import GenePlaces, Level, OperationWeights
from evodevo.operators.spec import Dimensions
from evodevo.settings import Settings


class BackboneSettings(Settings):
    """The settings of a backbone space.

    Attributes:
        depth: Number of LIVs of a backbone, 1 to 512.
        depth_range: (fewest, most) LIVs where depth is variable (an extension of the paper); None fixes it.
        classes: Names of the LIV classes that are drawn, or operator genomes such as ``12141``; the paper's 17 if left
            out.
        residuals: Whether segments have the sixth integer of STAR A.7.
        share_queries: Whether attention may share queries.
        partial_featurizers: Whether featurizers may be shared for some groups only (STAR 3.1, item 3).
        mutation_probability: Probability of the mutation of an integer, 0 to 1 (STAR A.4: 0.1).
        crossover_points: Number of cuts of a crossover, k, 1 to 64 (STAR A.4: 2).
        operators: Kind of mutation and crossover: ``paper`` mutates single integers and cuts between them; ``plan``
            acts on connections and whole LIVs (``backbone.variation``), with ``mutation_probability`` per LIV.
        operation_weights: Operation -> weight, at least 0, of its draw under ``plan``; the defaults if left out.
        designs: Kinds of designed backbones that begin a search, in turn: ``hybrid`` shares nothing, ``sharing`` shares
            keys and values in pairs of attention LIVs, and one featurizer among recurrences.
        distance: Measure by which two LIVs are equal or not: ``integers`` compares all of them, also those without
            effect; ``network`` compares class and connections.
        open_genes: Places of operator and featurizer genomes that mutation may change under ``plan``
            (``backbone.variation.genes.GENE_PLACES``: ``operator``, ``featurizer.repeat``, …).
        levels: Stages of the search, each with the places that mutation may change; the last one holds to the end.
        dimensions: Sizes that the genome leaves open.
    """

    depth: int = Field(default=24, ge=1, le=MAX_LIVS)
    depth_range: tuple[int, int] | None = None
    classes: tuple[str, ...] | None = None
    residuals: bool = False
    share_queries: bool = False
    partial_featurizers: bool = False
    mutation_probability: float = Field(default=0.1, ge=0.0, le=1.0)
    crossover_points: int = Field(default=2, ge=1, le=64)
    # Not written where it is the default, so that runs and networks from before it are still written as they were.
    operators: Literal["paper", "plan"] = Field(default="paper", exclude_if=lambda value: value == "paper")
    operation_weights: OperationWeights = Field(default_factory=dict, exclude_if=lambda value: not value)
    designs: tuple[Literal["hybrid", "sharing"], ...] = Field(
        default=("hybrid",), min_length=1, max_length=16, exclude_if=lambda value: value == ("hybrid",)
    )
    distance: Literal["integers", "network"] = Field(default="integers", exclude_if=lambda value: value == "integers")
    open_genes: GenePlaces = Field(default=(), exclude_if=lambda value: not value)
    levels: tuple[Level, ...] = Field(default=(), exclude_if=lambda value: not value)
    dimensions: Dimensions = Dimensions(width=768)

    @model_validator(mode="after")
    def _genes_need_operations(self) -> Self:
        if self.operators == "paper" and (self.open_genes or self.levels):
            raise ValueError("open_genes and levels need operators=plan; the paper's operators change no lower level")
        if self.levels and (self.open_genes or self.operation_weights):
            raise ValueError("with levels, open_genes and operation_weights are given in each level")
        return self
