"""Architectures that a user names, in a space that holds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from evodevo.errors import UsageError

if TYPE_CHECKING:
    from evodevo.runs.given import Given
    from evodevo.search.space import Space
    from evodevo.storage.addresses import Place

DEFAULT_DEPTH, DEFAULT_WIDTH = 24, 768
_ITERATIONS = re.compile(r"[^|]*\bT[0-9]", re.ASCII)
_SIX_INTEGERS = re.compile(r"\s*(?:[0-9]{6}|[0-9]{1,6}(?:\.[0-9]{1,6}){5})(?![0-9.])", re.ASCII)


def read_architecture(
    word: str, depth: int | None, width: int | None, head_size: int | None, store: Place
) -> tuple[Space[Any], Any, str]:
    """The architecture that a user names: its space, its genome, and how it was brought to the depth.

    Args:
        word: word of the user, see ``runs.given.find``.
        depth: number of LIVs of a backbone; None keeps its own, and is 24 for a name.
        width: number of channels of the residual stream; None is that of an individual's run, or 768.
        head_size: number of channels per head; None is that of an individual's run, or chosen by the width.
        store: folder of the store, where individuals are looked up.

    Raises:
        NotFoundError, UsageError: see ``find``; or a depth or size that cannot be.
    """
    from evodevo.backbone.named import NAMED_BACKBONES
    from evodevo.runs.given import find, opened, scaled

    with opened(store) as archive:
        given = find(word, tuple(NAMED_BACKBONES), archive, store)
        space = _space(given, depth, width, head_size)
        genome, scaling = scaled(given, space, depth)
    return space, genome, scaling


def _space(given: Given, depth: int | None, width: int | None, head_size: int | None) -> Space[Any]:
    """The space of an individual's run, or one that holds the genome; with the sizes that were asked for."""
    from evodevo.backbone.space import BackboneSpace
    from evodevo.backbone.space_settings import BackboneSettings
    from evodevo.settings import merge, validate

    sizes = {"width": width, "head_size": head_size}
    changes: dict[str, Any] = {"dimensions": {name: size for name, size in sizes.items() if size is not None}}
    if given.individual is not None:
        run = given.individual.run
        space: Space[Any] = run.space
        if isinstance(space, BackboneSpace):
            values = merge(space.settings.model_dump(mode="json"), changes)
            return BackboneSpace(validate(BackboneSettings, values, what="cost"))
        if run.is_experiment:
            raise UsageError(f"{given.source} is a training of run {run.id}; see its cost with: evodevo show {run.id}")
        if changes["dimensions"]:
            raise UsageError(f"{given.source} has the sizes of its own run; --width and --head-size are for backbones.")
        if not hasattr(space, "cost"):
            raise UsageError(
                f"{given.source} is of a study of your own, whose space is in your code alone: it has no cost."
            )
        return space
    kind = str(given.envelope["space"]) if given.envelope is not None else "backbone"
    if "|" in given.text:
        kind = "h_model" if _ITERATIONS.match(given.text) else "module_zoo"
    if kind in _SPACES:
        return _SPACES[kind](DEFAULT_WIDTH if width is None else width)
    values = {
        "depth": DEFAULT_DEPTH if depth is None else depth,
        "residuals": _has_six_integers(given),
        "dimensions": {"width": DEFAULT_WIDTH, **changes["dimensions"]},
    }
    return BackboneSpace(validate(BackboneSettings, values, what="cost"))


def _has_six_integers(given: Given) -> bool:
    """Whether the segments have the residual extension."""
    genes = None if given.envelope is None else given.envelope["genes"]
    if isinstance(genes, list):
        return all(isinstance(segment, list) and len(segment) == 6 for segment in genes)
    return _SIX_INTEGERS.match(given.text) is not None


def _h_models(width: int) -> Space[Any]:
    from evodevo.h_model.space import HModelSpace
    from evodevo.h_model.space_settings import HModelSpaceSettings
    from evodevo.settings import validate

    # Of the paper's stream: a text names none, and its inference mode and aggregation are of that one.
    values = {"structure": {"stream": "paper", "width": width}, "hidden_range": [1, 64], "iterations_range": [1, 256]}
    return HModelSpace(validate(HModelSpaceSettings, values, what="cost"))


def _zoos(width: int) -> Space[Any]:
    from evodevo.module_zoo.space import any_zoo

    return any_zoo(width)


_SPACES = {"h_model": _h_models, "module_zoo": _zoos}
"""Spaces of networks of samples, by the name in a genome's envelope."""
