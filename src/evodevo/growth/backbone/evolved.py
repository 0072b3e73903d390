"""A backbone that a search found as the start of a growth; no torch here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.growth.backbone.arms import BACKBONE
from evodevo.operators.spec import Dimensions
from evodevo.runs.archive import Archive, Individual
from evodevo.settings import merge

ID = re.compile(r"[0-9a-f]{8,}|last")
"""An individual's id, or most of it. A genome as written has groups of five to seven digits."""


def with_evolved(changes: Mapping[str, Any], archive: Archive) -> dict[str, Any]:
    """Settings of a growth whose start is named by an individual of a search, with the backbone that it is.

    Its width, the size of its heads and its LIV classes come along; nothing races with it unless ``starts`` are given.
    What the user has set beside it stays.

    Args:
        changes: Nested settings; ``backbone.genome`` may be an individual's id, or ``last``.
        archive: Where it is.

    Raises:
        NotFoundError: No such individual.
        UsageError: It is no backbone, or one that a growth cannot begin with.
    """
    part = dict(changes.get(BACKBONE) or {})
    individual = archive.individual(part.pop("genome"))
    return {**changes, BACKBONE: merge(_start(individual), part)}


def names_individual(changes: Mapping[str, Any]) -> bool:
    """Whether the start is named by an individual, and not by a genome or a name."""
    genome = (changes.get(BACKBONE) or {}).get("genome")
    return isinstance(genome, str) and ID.fullmatch(genome) is not None


def _start(individual: Individual) -> dict[str, Any]:
    """The settings that give this backbone."""
    space = getattr(individual.run.settings, "space", None)
    if not isinstance(space, BackboneSettings):
        raise UsageError(f"{individual.id} is no backbone of a search: {individual.run.kind} {individual.run.recipe}.")
    sizes, usual = space.dimensions, Dimensions(width=space.dimensions.width)
    unusual = [
        name
        for name in Dimensions.model_fields
        if name not in ("width", "head_size") and getattr(sizes, name) != getattr(usual, name)
    ]
    more = [name for name in ("residuals", "share_queries", "partial_featurizers") if getattr(space, name)]
    if unusual or more or space.open_genes or space.levels:
        what = ", ".join([*(f"dimensions.{name}" for name in unusual), *more]) or "open places of the lower levels"
        raise UsageError(
            f"a growth has no setting for {what} of the space of {individual.id}; it cannot begin with it."
        )
    genome = individual.text
    return {
        "genome": genome,
        "depth": len(genome.split()),
        "width": sizes.width,
        "head_size": sizes.head,
        "classes": None if space.classes is None else list(space.classes),
        "starts": [],
    }
