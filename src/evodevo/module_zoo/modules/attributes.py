"""Kinds of attributes of a module: what values they may have, and how they are drawn, mutated, crossed and compared.

Mutation is log-normal for positive numbers (eq. 12), logit-normal for dropout, one step with
chance 0.3 on a grid of whole numbers, drawn anew with chance 0.1 for categories. Crossover as eq. 13 has it: convex for
numbers, rounded to the grid for whole ones, from either parent for categories. Distance as Gower (1971) has it: the
difference as a share of the range, on a logarithmic scale where mutation is, 0 or 1 for categories.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from evodevo.errors import quoted_list

A = TypeVar("A")
Attribute = float | int | str | bool | tuple[int, ...]
"""Value of an attribute of a module."""
SIGMA = 0.2
"""Standard deviation of the logarithm of a positive number's change (sigma_theta of eq. 12)."""
SIGMA_SHARE = 0.5
"""The same of a dropout's logit."""
STEP_CHANCE = 0.3
CATEGORY_CHANCE = 0.1
DIGITS = 4  # of numbers, so that files stay readable


class Kind(ABC):
    """The allowed values of an attribute, and their draw, mutation and crossover.

    Laws: ``draw``, ``mutate`` and ``cross`` give values that are allowed at the width; ``near`` is the identity on
    those; ``difference`` is symmetric, in [0, 1], and 0 between equal values.
    """

    default: Attribute

    @abstractmethod
    def allows(self, value: object, width: int) -> bool:
        """Whether a module of this width may have the value."""

    @abstractmethod
    def allowed(self, width: int) -> str:
        """All values in words, for errors."""

    @abstractmethod
    def near(self, value: Attribute, width: int) -> Attribute:
        """The value itself, or an allowed one near it."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """A random value."""

    @abstractmethod
    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """A value near ``value``; ``scale`` multiplies spreads and chances."""

    def stepped(self, value: Attribute, width: int, factor: float, *, up: bool = True) -> Attribute | None:
        """The next larger value, or smaller one: ``factor`` times it, or its neighbour; None where there is none."""
        return None

    @abstractmethod
    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """A value between two: ``share`` of a, the rest of b; a category is a's with that chance."""

    @abstractmethod
    def difference(self, a: Attribute, b: Attribute) -> float:
        """Distance of two values, in [0, 1]; a value of another kind counts as the nearest value of this kind."""


@dataclass(frozen=True)
class Factor(Kind):
    """A positive number between two others, on a logarithmic scale."""

    low: float
    high: float
    default: float

    def allows(self, value: object, width: int) -> bool:
        """See ``Kind``."""
        return isinstance(value, float | int) and not isinstance(value, bool) and self.low <= value <= self.high

    def allowed(self, width: int) -> str:
        """See ``Kind``."""
        return f"{self.low:g} to {self.high:g}"

    def near(self, value: Attribute, width: int) -> Attribute:
        """See ``Kind``."""
        number = float(cast("float", value))
        return number if self.low <= number <= self.high else min(max(number, self.low), self.high)

    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """Uniform in the logarithm."""
        return self._rounded(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))

    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """Eq. 12."""
        return self._rounded(cast("float", value) * math.exp(_limited(scale * SIGMA * rng.standard_normal())))

    def stepped(self, value: Attribute, width: int, factor: float, *, up: bool = True) -> Attribute | None:
        """See ``Kind``; what lies beyond the end becomes the end."""
        number = cast("float", value)
        moved = self._rounded(number * factor if up else number / factor)
        return moved if (moved > number if up else moved < number) else None

    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """Eq. 13."""
        return self._rounded(share * cast("float", a) + (1 - share) * cast("float", b))

    def difference(self, a: Attribute, b: Attribute) -> float:
        """See ``Kind``."""
        left, right = (cast("float", self.near(value, 0)) for value in (a, b))
        return abs(math.log(left) - math.log(right)) / math.log(self.high / self.low)

    def _rounded(self, number: float) -> float:
        return min(max(round(number, DIGITS), self.low), self.high)


@dataclass(frozen=True)
class SizeFactor(Factor):
    """A whole number between two others, on a logarithmic scale: channels, hidden units."""

    def _rounded(self, number: float) -> float:
        return round(super()._rounded(number))


@dataclass(frozen=True)
class Share(Kind):
    """A number from 0 to ``high``: dropout. Below a hundredth of it is 0, so that 0 can be left and reached again."""

    high: float
    default: float

    def allows(self, value: object, width: int) -> bool:
        """See ``Kind``."""
        return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= self.high

    def allowed(self, width: int) -> str:
        """See ``Kind``."""
        return f"0 to {self.high:g}"

    def near(self, value: Attribute, width: int) -> Attribute:
        """See ``Kind``."""
        return min(max(float(cast("float", value)), 0.0), self.high)

    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """Uniform."""
        return round(float(rng.uniform(0, self.high)), DIGITS)

    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """Normal in the logit."""
        if scale == 0:
            return value
        share = min(max(cast("float", value) / self.high, 0.02), 0.98)
        logit = math.log(share / (1 - share)) + _limited(scale * SIGMA_SHARE * rng.standard_normal())
        moved = 1 / (1 + math.exp(-logit))
        return round(self.high * moved, DIGITS) if moved >= 0.01 else 0.0

    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """Eq. 13."""
        return min(round(share * cast("float", a) + (1 - share) * cast("float", b), DIGITS), self.high)

    def difference(self, a: Attribute, b: Attribute) -> float:
        """See ``Kind``."""
        left, right = (cast("float", self.near(value, 0)) for value in (a, b))
        return abs(left - right) / self.high


@dataclass(frozen=True)
class Grid(Kind):
    """One of some whole numbers, in order; with ``divides`` one that divides the width."""

    values: tuple[int, ...]
    default: int
    divides: bool = False

    def allows(self, value: object, width: int) -> bool:
        """See ``Kind``."""
        return isinstance(value, int) and not isinstance(value, bool) and value in self._at(width)

    def allowed(self, width: int) -> str:
        """See ``Kind``."""
        return quoted_list(self._at(width)) + (f" (divisors of the width {width})" if self.divides else "")

    def near(self, value: Attribute, width: int) -> Attribute:
        """See ``Kind``; of two that are as near the smaller."""
        return min(self._at(width), key=lambda choice: (abs(choice - cast("float", value)), choice))

    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """Uniform."""
        return _drawn(self._at(width), rng)

    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """One step up or down with chance 0.3; a step beyond the end stays."""
        values = self._at(width)
        place = values.index(cast("int", self.near(value, width)))
        step = (2 * int(rng.integers(2)) - 1) * int(rng.random() < STEP_CHANCE * scale)
        return values[min(max(place + step, 0), len(values) - 1)]

    def stepped(self, value: Attribute, width: int, factor: float, *, up: bool = True) -> Attribute | None:
        """See ``Kind``: the neighbour, whatever the factor."""
        values = self._at(width)
        place = values.index(cast("int", self.near(value, width))) + (1 if up else -1)
        return values[place] if 0 <= place < len(values) else None

    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """Eq. 13, and the value of the grid that is nearest."""
        return self.near(share * cast("int", a) + (1 - share) * cast("int", b), width)

    def difference(self, a: Attribute, b: Attribute) -> float:
        """Steps between them, as a share of all."""
        left, right = (self.values.index(cast("int", self.near(value, 0))) for value in (a, b))  # all divide 0
        return abs(left - right) / (len(self.values) - 1)

    def _at(self, width: int) -> tuple[int, ...]:
        return tuple(choice for choice in self.values if not self.divides or width % choice == 0)


@dataclass(frozen=True)
class Category(Kind):
    """One of some values that have no order."""

    values: tuple[str, ...] | tuple[bool, ...]
    default: str | bool

    def allows(self, value: object, width: int) -> bool:
        """See ``Kind``."""
        return any(type(value) is type(choice) and value == choice for choice in self.values)

    def allowed(self, width: int) -> str:
        """See ``Kind``."""
        return quoted_list(str(choice).lower() if isinstance(choice, bool) else choice for choice in self.values)

    def near(self, value: Attribute, width: int) -> Attribute:
        """See ``Kind``."""
        return value if self.allows(value, width) else self.default

    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """Uniform."""
        values: tuple[str | bool, ...] = self.values
        return _drawn(values, rng)

    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """Drawn anew with chance 0.1."""
        return self.draw(rng, width) if rng.random() < CATEGORY_CHANCE * scale else value

    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """See ``Kind``."""
        return a if rng.random() < share else b

    def difference(self, a: Attribute, b: Attribute) -> float:
        """See ``Kind``."""
        return float(a != b)


@dataclass(frozen=True)
class Subset(Kind):
    """Some of a few whole numbers, at least one, in order."""

    values: tuple[int, ...]
    default: tuple[int, ...]

    def allows(self, value: object, width: int) -> bool:
        """See ``Kind``."""
        return isinstance(value, tuple) and value != () and value == self._those(value)

    def allowed(self, width: int) -> str:
        """See ``Kind``."""
        return f"one or more of {quoted_list(self.values)}, each once and in order"

    def near(self, value: Attribute, width: int) -> Attribute:
        """See ``Kind``."""
        return self._those(cast("tuple[int, ...]", value)) or self.default

    def draw(self, rng: np.random.Generator, width: int) -> Attribute:
        """Each with chance one half; one where none is."""
        return tuple(choice for choice in self.values if rng.random() < 0.5) or (_drawn(self.values, rng),)

    def mutate(self, value: Attribute, rng: np.random.Generator, scale: float, width: int) -> Attribute:
        """Each comes or goes with chance 0.1."""
        kept = cast("tuple[int, ...]", value)
        changed = [choice for choice in self.values if (choice in kept) != (rng.random() < CATEGORY_CHANCE * scale)]
        return tuple(changed) or kept

    def cross(self, a: Attribute, b: Attribute, share: float, rng: np.random.Generator, width: int) -> Attribute:
        """Values that both have, and of the others each as one of the two has it, at random."""
        left, right = cast("tuple[int, ...]", a), cast("tuple[int, ...]", b)
        chosen = [choice for choice in self.values if choice in (left if rng.random() < share else right)]
        return tuple(chosen) or left

    def difference(self, a: Attribute, b: Attribute) -> float:
        """Share of the numbers that only one of them has."""
        return len(set(cast("tuple[int, ...]", a)) ^ set(cast("tuple[int, ...]", b))) / len(self.values)

    def _those(self, value: Sequence[Any]) -> tuple[int, ...]:
        return tuple(choice for choice in self.values if any(type(other) is int and other == choice for other in value))


def _drawn(values: Sequence[A], rng: np.random.Generator) -> A:
    return values[int(rng.integers(len(values)))]


def _limited(exponent: float) -> float:
    """An exponent that no scale makes overflow."""
    return min(max(exponent, -50.0), 50.0)
