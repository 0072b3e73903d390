"""The settings of a space of H-Models, and the layers that they name."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError, unknown_name
from evodevo.h_model.aggregations.base import BUILT_IN
from evodevo.h_model.genome import MODES, NAME, SHORT_NAMES, THOUSAND, GeneMode
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.classes import OPERATORS
from evodevo.operators.layers.base import CLASSIC, LAYERS, Layer, LayerSpec
from evodevo.operators.layers.cost import layer_parameters
from evodevo.operators.layers.liv import LIVLayer
from evodevo.settings import Settings

OF_CARRIED: dict[str, Any] = {"modes": ("dense",), "aggregations": ("sum",)}
"""Choices of a space of H-Models with a carried stream."""


class HModelSpaceSettings(Settings):
    """The settings of a space of H-Models.

    Attributes:
        hidden_range: (fewest, most) hidden layers.
        iterations_range: (fewest, most) iterations T.
        layers: allowed layers: kinds whose sizes follow from those below, and LIV classes.
        custom: further layers by names of one's own, with all their sizes: a closed span of an evolved backbone, a
            pretrained layer, another H-Model.
        heads, feedforward, kernel, head_size, band: sizes of the ``layers``; see ``operators.layers``.
        alphas, alpha_rates: values that a genome may have, at most three decimals each.
        aggregations: rows of ``AGGREGATIONS``, each with its default settings; a carried stream has ``sum`` alone.
        windows: windows that a genome may have; 0 is none. One that is not smaller than the number of layers is none.
        modes: inference modes; k and m run up to the number of hidden layers. A carried stream has ``dense`` alone.
        thresholds: values of the mode ``threshold``, at most three decimals each.
        structure: everything else; its hidden layers, iterations, alpha, alpha rate, aggregation, window and inference
            mode are replaced by the genome's.
    """

    hidden_range: tuple[int, int] = (2, 8)
    iterations_range: tuple[int, int] = (1, 6)
    layers: tuple[str, ...] = (*CLASSIC, "GConv-1", "Rec-1")
    custom: dict[str, Layer] = Field(default_factory=dict)
    heads: int = Field(default=4, ge=1, le=1024)
    feedforward: int | None = Field(default=None, ge=1, le=1 << 20)
    kernel: int = Field(default=3, ge=1, le=255)
    head_size: int | None = Field(default=None, ge=2, le=512)
    band: int = Field(default=64, ge=2, le=65536)
    alphas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    alpha_rates: tuple[float, ...] = (0.7, 1.0, 1.4)
    aggregations: tuple[str, ...] = BUILT_IN
    windows: tuple[int, ...] = (0, 1, 2)
    modes: tuple[GeneMode, ...] = MODES
    thresholds: tuple[float, ...] = (0.05, 0.1, 0.2)
    structure: HModelStructure = HModelStructure()

    @model_validator(mode="after")
    def _choices_of_the_stream(self) -> Self:
        """What nobody has chosen is what a carried stream has."""
        if self.structure.stream == "carried":
            for name, value in OF_CARRIED.items():
                if name not in self.model_fields_set:
                    object.__setattr__(self, name, value)
        return self


def named_layers(settings: HModelSpaceSettings) -> dict[str, LayerSpec]:
    """Every layer of the space by name.

    Raises:
        UsageError: an unknown name, one that is taken, a size that the width does not allow, or no layer at all.
    """
    layers: dict[str, LayerSpec] = {name: _layer(name, settings) for name in settings.layers}
    for name, layer in settings.custom.items():
        if not NAME.fullmatch(name) or name in layers or name in (*CLASSIC, *SHORT_NAMES.values(), *OPERATORS):
            raise UsageError(
                f"the custom layer {name[:40]!r} needs a name of its own: a letter, then letters, digits, dots, "
                "hyphens or underscores, at most 40, and not the name of another layer."
            )
        layers[name] = layer
    if not layers:
        raise UsageError("the space has no layers; name one in layers or custom.")
    for layer in layers.values():
        layer_parameters(layer, settings.structure.width, settings.structure.causal)  # refuses what does not fit
    return layers


def _layer(name: str, settings: HModelSpaceSettings) -> LayerSpec:
    if name in OPERATORS:
        return LIVLayer(operator=name, head_size=settings.head_size, band=settings.band)
    layer = LAYERS.get(name).sized(settings) if name in LAYERS else None
    if layer is None:
        raise unknown_name("layer", name, [*CLASSIC, *OPERATORS])
    return layer


def checked_range(name: str, given: tuple[int, int], most: int) -> tuple[int, int]:
    """A range as it was given, or ``UsageError``."""
    low, high = given
    if not 1 <= low <= high <= most:
        raise UsageError(f"{name} is ({low}, {high}); 1 <= fewest <= most <= {most} is wanted.")
    return low, high


def choices(name: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Choices as they were given, or ``UsageError`` where there is none or a value occurs twice."""
    if not given or len(set(given)) != len(given):
        raise UsageError(f"{name} is {given}; give at least one value, each once.")
    return given


def thousandths(name: str, given: tuple[float, ...], low: int, high: int) -> tuple[int, ...]:
    """Decimals as whole thousandths, or ``UsageError``."""
    numbers = choices(name, tuple(round(value * THOUSAND) for value in given))
    for value, whole in zip(given, numbers, strict=True):
        if abs(value * THOUSAND - whole) > 1e-6 or not low <= whole <= high:
            limits = f"{low / THOUSAND:g} to {high / THOUSAND:g}"
            raise UsageError(f"{name} holds {value}; {limits} is wanted, with at most three decimals.")
    return numbers
