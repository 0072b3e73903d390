"""The hyperparameters that a path's agent may tune: ordered lists of values, their defaults, and the lists of the
published agents.

Source: docs/spec/munet.md#hyperparameters; µ4Net (2302.02721), Table 1. Keys are those of the published code:
``opt_`` tunes the optimizer, ``ds_`` the preparation of data, ``_mu_`` the rates of mutations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.multitask.genome import Value
from evodevo.settings import Settings

Version = Literal["paper", "v4b"]
"""Version of the lists: "paper" (the default) is µ4Net's Table 1, "v4b" its published code."""

MU = "_mu_"
"""The global rate of mutation; it sorts before all other keys, so that its new value drives theirs."""
DATA = "ds_"
NUM_LAYERS = "num_layers"
IMAGE_SIZE = "ds_image_size"
SHIFT = "ds_shift"
"""Largest movement of a training image in either direction, as a share of its sides."""
BLOCK_WIDTH = "block_width"
"""Width inside of each block, as a multiple of that of what leaves it."""
NUM_PATHS = "num_paths"
ROUTER_RATE = "router_lr_mult"
ROUTER_MAIN_WEIGHT = "router_init_main_path_weight"


class Hyperparameter(Settings):
    """An ordered list of values, one of them the default.

    Attributes:
        key: its name.
        values: values in order; all numbers, all true or false, or all text.
        default: one of them.
        tuned: False keeps the default for ever; no action mutates it.
    """

    key: str = Field(pattern=r"^[a-z_][a-z0-9_]*$", max_length=60)
    values: tuple[Value, ...] = Field(min_length=1)
    default: Value
    tuned: bool = True

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        kinds = {float if type(value) is int else type(value) for value in self.values}
        if len(kinds) > 1:
            raise ValueError(f"the values of {self.key!r} are all numbers, all true or false, or all text")
        if any(self.index(value) != place for place, value in enumerate(self.values)):
            raise ValueError(f"the values of {self.key!r} are listed once each")
        self.index(self.default)
        return self

    def index(self, value: Value) -> int:
        """Index of a value; numbers are compared with a tolerance, since they went through storage.

        Raises:
            UsageError: it is not in the list.
        """
        for place, candidate in enumerate(self.values):
            if _same(candidate, value):
                return place
        listed = ", ".join(map(repr, self.values))
        raise UsageError(f"hyperparameter {self.key!r} is one of {listed}; got {value!r}. Add it to the list.")

    def neighbour(self, value: Value, *, up: bool) -> Value:
        """The next value, or the previous one; at an end of the list the value itself.

        Raises:
            UsageError: the value is not in the list.
        """
        place = self.index(value) + (1 if up else -1)
        return self.values[min(max(place, 0), len(self.values) - 1)]


class Hyperparameters(Settings):
    """All hyperparameters of an agent, by key.

    Attributes:
        rows: each key once; ``_mu_`` among them, its values probabilities.
    """

    rows: tuple[Hyperparameter, ...]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        keys = [row.key for row in self.rows]
        if len(set(keys)) != len(keys):
            raise ValueError("each hyperparameter has one row")
        if MU not in keys:
            raise ValueError(f"a row {MU!r} with the rates of actions is needed")
        if not all(isinstance(value, float) and 0 <= value <= 1 for value in self.rates.values):
            raise ValueError(f"the values of {MU!r} are probabilities")
        return self

    @cached_property
    def by_key(self) -> dict[str, Hyperparameter]:
        """The rows by key."""
        return {row.key: row for row in self.rows}

    @property
    def rates(self) -> Hyperparameter:
        """The row of ``_mu_``; every entry of the mutation table moves along its values."""
        return self.by_key[MU]

    @cached_property
    def tuned(self) -> tuple[str, ...]:
        """Keys that actions mutate, in the order in which they are visited."""
        return tuple(sorted(row.key for row in self.rows if row.tuned))

    def defaults(self) -> dict[str, Value]:
        """The values of an untuned path, without ``_mu_``."""
        return {row.key: row.default for row in self.rows if row.key != MU}

    def default_mu(self) -> dict[str, float]:
        """The mutation table of an untuned path."""
        return {MU: float(self.rates.default)}

    def complete(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The known keys of these values, each as its list writes it, and defaults for the rest.

        Raises:
            UsageError: a value that is in no list.
        """
        return {key: row.values[row.index(values.get(key, row.default))] for key, row in self._without_mu}

    def with_row(self, row: Hyperparameter) -> Hyperparameters:
        """These with one row put in the place of its key's, or added."""
        return Hyperparameters(rows=(*(entry for entry in self.rows if entry.key != row.key), row))

    @property
    def _without_mu(self) -> Iterable[tuple[str, Hyperparameter]]:
        return ((row.key, row) for row in self.rows if row.key != MU)


class PathRange(Settings):
    """The ranges of depth and resolution (pixels of a side) for paths of a size.

    Attributes:
        layers: (least, most, default).
        image_sizes: sides of images in pixels, in order.
        image_size: default side of images in pixels.
    """

    layers: tuple[int, int, int]
    image_sizes: tuple[int, ...]
    image_size: int


_SIXTEENS = tuple(range(16, 113, 16))
RANGES: dict[str, PathRange] = {
    "tiny": PathRange(layers=(0, 3, 3), image_sizes=(8, 16, 24, 32), image_size=16),
    "t0": PathRange(layers=(0, 3, 0), image_sizes=(32, 48), image_size=32),
    "ti3": PathRange(layers=(0, 3, 3), image_sizes=_SIXTEENS, image_size=32),
    "ti": PathRange(layers=(0, 12, 12), image_sizes=tuple(range(32, 225, 32)), image_size=224),
    "b": PathRange(layers=(0, 12, 12), image_sizes=_SIXTEENS, image_size=80),
    "l": PathRange(layers=(0, 25, 24), image_sizes=(224, 384), image_size=384),
}
"""By size, as ``paths.vision.spec.PRESETS`` calls them, in small letters. "tiny" and "ti" are ours; the others are the
published ones. L may exceed its root by one layer."""


def singlepath_hyperparameters(size: str | PathRange = "ti3", version: Version = "paper") -> Hyperparameters:
    """The hyperparameters of a singlepath agent.

    Args:
        size: a row of ``RANGES`` (letters of either case), or a range of the caller's.
        version: version of the lists and defaults.

    Raises:
        UsageError: no such size.
    """
    given = RANGES.get(size.lower()) if isinstance(size, str) else size
    if given is None:
        raise UsageError(f"there is no size {size!r} of paths; there are {', '.join(RANGES)}.")
    least, most, layers = given.layers
    return Hyperparameters(
        rows=(
            *_common(version),
            _row(NUM_LAYERS, range(least, most + 1), layers),
            _row(IMAGE_SIZE, given.image_sizes, given.image_size),
        )
    )


def family_hyperparameters(
    version: Version, defaults: Mapping[str, Value] | None = None, *, images: bool = True
) -> Hyperparameters:
    """The hyperparameters of a singlepath agent of another family than vision transformers, without what decides its
    structure.

    Args:
        version: version of the lists and defaults.
        defaults: other defaults of the family.
        images: whether it reads images; else what prepares them is left out.
    """
    rows = [row.model_copy(update={"default": (defaults or {}).get(row.key, row.default)}) for row in _common(version)]
    return Hyperparameters(rows=tuple(row for row in rows if images or not row.key.startswith(DATA)))


def multipath_hyperparameters(version: Version = "paper", *, most_paths: int = 3) -> Hyperparameters:
    """The hyperparameters of a multipath agent: neither depth nor resolution, since its paths are frozen.

    Source: docs/spec/munet.md#multipath-children.

    Args:
        version: version of the lists and defaults.
        most_paths: largest number of paths, the main one included; 2 or more.
    """
    return Hyperparameters(
        rows=(
            *_common(version),
            _row(ROUTER_RATE, (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0), 0.05),
            _row(NUM_PATHS, range(2, most_paths + 1), 2),
            _row(ROUTER_MAIN_WEIGHT, (0.8,), 0.8, tuned=False),
        )
    )


def _common(version: Version) -> list[Hyperparameter]:
    rates = [round(0.02 * step, 2) for step in range(1, 16)]
    learning_rates = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    deltas = ("brightness", "contrast", "saturation", "hue", "quality")
    return [
        _row(MU, rates, 0.2),
        _row("opt_lr", (*learning_rates, 1.0) if version == "v4b" else learning_rates, 0.02),
        _row("opt_lr_schedule", ("cosine", "constant", "linear", "restarts"), "cosine", tuned=False),
        _row("opt_lr_warmup_ratio", (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3), 0.02),
        _row("opt_momentum", (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99), 0.8),
        _row("opt_nesterov", (True, False), True),
        _row("ds_area_range_min", (0.05, 0.5, 0.95, 1.0), 1.0),
        _row("ds_aspect_ratio_range_min", (0.5, 0.75, 1.0), 1.0),
        _row("ds_flip_left_right", (True, False), False),
        *(_row(f"ds_{name}_delta", (0.0, 0.01, 0.02, 0.05, 0.1, 0.2), 0.0) for name in deltas),
    ]


def _row(key: str, values: Iterable[Value], default: Value, *, tuned: bool = True) -> Hyperparameter:
    return Hyperparameter(key=key, values=tuple(values), default=default, tuned=tuned)


def _same(first: Value, other: Value) -> bool:
    # True == 1 in Python; a switch is no number.
    if isinstance(first, bool) or isinstance(other, bool) or isinstance(first, str) or isinstance(other, str):
        return type(first) is type(other) and first == other
    return math.isclose(first, other, rel_tol=1e-9, abs_tol=1e-12)
