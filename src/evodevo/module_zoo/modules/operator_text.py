"""An attribute that names any operator: a LIV class, a LIV's operator genome, or an H-Model as its space writes it.

``Rec-1``, ``3.2.1.2.1`` and ``T2 a1 r1 sum dense | tr mlp`` are three of them. Mutation and crossover of H-Models are
those of their own space; LIVs are drawn from the table of classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np

from evodevo.errors import UsageError, quoted_list
from evodevo.h_model.nested_layer import NestedLayer
from evodevo.h_model.space import HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.attributes import CATEGORY_CHANCE, STEP_CHANCE, Attribute, Kind
from evodevo.networks.canvas import fitting_heads
from evodevo.operators.classes import OPERATORS
from evodevo.operators.layers.base import CLASSIC, LayerSpec
from evodevo.operators.layers.cost import layer_parameters
from evodevo.operators.layers.liv import fitting_classes, fitting_head_size, fitting_liv

H_MODEL_CHANCE = 0.2
"""Probability that a random operator is an H-Model."""
SMALLEST = 4  # width of an H-Model


@dataclass(frozen=True)
class OperatorText(Kind):
    """The operator by name or genome."""

    default: str = "Rec-1"

    def allows(self, value: object, width: int) -> bool:
        """See ``Kind``."""
        if not isinstance(value, str):
            return False
        try:
            layer_parameters(operator_layer(value, width), width, causal=False)
        except UsageError:
            return False
        return True

    def allowed(self, width: int) -> str:
        """See ``Kind``."""
        classes = quoted_list(fitting_classes(width)) or f"no LIV class at width {width}"
        return f"{classes}; five integers with dots; an H-Model such as {SMALL_H_MODEL!r}"

    def near(self, value: Attribute, width: int) -> Attribute:
        """The value itself, the default, or what else the width allows."""
        if self.allows(value, width):
            return value
        names = fitting_classes(width)
        return self.default if self.default in names else (*names, SMALL_H_MODEL)[0]

    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """A LIV class, or an H-Model with chance 0.2."""
        names = fitting_classes(width)
        if not names or (width >= SMALLEST and rng.random() < H_MODEL_CHANCE):
            space = h_models(width)
            return space.print(space.sample(rng))
        return names[int(rng.integers(len(names)))]

    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """Another operator with chance 0.1; a change of an H-Model by its own space with chance 0.3."""
        if rng.random() < CATEGORY_CHANCE * scale:
            return self.draw(rng, width)
        if is_h_model(value) and rng.random() < STEP_CHANCE * scale:
            space = h_models(width)
            return space.print(space.mutate(space.parse(cast("str", value)), rng))
        return value

    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """A child of two H-Models; else one of the two."""
        if is_h_model(a) and is_h_model(b):
            space = h_models(width)
            children = space.crossover(space.parse(cast("str", a)), space.parse(cast("str", b)), rng)
            return space.print(children[int(rng.random() >= share)])
        return a if rng.random() < share else b

    def difference(self, a: Attribute, b: Attribute) -> float:
        """Distance of two H-Models in their space; for other values 0 or 1."""
        if is_h_model(a) and is_h_model(b):
            space = h_models(64)  # the distance of two genomes does not depend on the width
            return space.distance(space.parse(cast("str", a)), space.parse(cast("str", b)))
        return float(a != b)


SMALL_H_MODEL = "T2 a1 r1 sum dense | tr mlp"


def is_h_model(value: Attribute) -> bool:
    """Whether a text is neither a LIV class nor an operator genome."""
    return isinstance(value, str) and value not in OPERATORS and not value[:1].isdigit()


def operator_layer(text: str, width: int) -> LayerSpec:
    """The layer that a text denotes.

    Raises:
        UsageError: it denotes none, or none of this width.
    """
    if is_h_model(text):
        if width < SMALLEST:
            raise UsageError(f"an H-Model has at least {SMALLEST} channels; the width is {width}.")
        space = h_models(width)
        return NestedLayer(structure=space.structure(space.parse(text)))
    return fitting_liv(text, width)


@lru_cache(maxsize=64)
def h_models(width: int) -> HModelSpace:
    """H-Models that are small enough for a module; dense, so that what is stated is what is executed.

    Of the paper's stream: their texts name none, and always meant it.
    """
    livs = [name for name in ("GConv-1", "Rec-1") if name in fitting_classes(width)]
    return HModelSpace(
        HModelSpaceSettings(
            hidden_range=(1, 4),
            iterations_range=(1, 4),
            layers=(*CLASSIC, *livs),
            heads=fitting_heads(width),
            head_size=fitting_head_size(width),
            modes=("dense",),
            structure=HModelStructure(stream="paper", width=width),
        )
    )
