"""The featurizer genome: how an operator obtains its feature groups from its input.

Seven integers per group, at most five groups (STAR, A.6.3 and section 3.2): parametrisation, token mixing, sparsity,
non-linearity, channel mixing, expansion, repeat. The paper names six meanings for seven places; parametrisation is the
missing one, since featurizer classes 7 and 8 differ in nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from evodevo.errors import GenomeError

PROJECTED, EXPLICIT, IMPLICIT = 1, 2, 3  # parametrisation
DIAGONAL, LOW_RANK, TOEPLITZ, SEMI_SEPARABLE = 1, 2, 3, 4  # token mixing
UNMASKED, BANDED = 1, 2  # sparsity
LINEAR, SOFTMAX, RELU, SWISH = 1, 2, 3, 4  # non-linearity
DENSE = 2  # channel mixing; 1 is diagonal

MAX_GROUPS = 5
MAX_FACTOR = 4096


class GroupGenes(NamedTuple):
    """The seven integers of one feature group."""

    parametrisation: int
    token_mixing: int
    sparsity: int
    nonlinearity: int
    channel_mixing: int
    expansion: int
    repeat: int


Featurizer = tuple[GroupGenes, ...]

OPTIONS: dict[str, tuple[int, int]] = {
    "parametrisation": (1, 3),
    "token_mixing": (1, 4),
    "sparsity": (1, 2),
    "nonlinearity": (1, 4),
    "channel_mixing": (1, 2),
    "expansion": (1, MAX_FACTOR),
    "repeat": (1, MAX_FACTOR),
}


def expanded(expansion: int, width: int) -> int:
    """Channels of a group: the expansion code 3 denotes 8/3, as in SwiGLU; every other code is the factor."""
    return round(8 * width / 3) if expansion == 3 else expansion * width


def check_featurizer(groups: Featurizer) -> None:
    """Raise ``GenomeError`` naming group, place, value and range of the first wrong integer."""
    if not 1 <= len(groups) <= MAX_GROUPS:
        raise GenomeError(f"a featurizer has 1 to {MAX_GROUPS} feature groups; this one has {len(groups)}.")
    for number, genes in enumerate(groups, 1):
        for (name, (low, high)), value in zip(OPTIONS.items(), genes, strict=True):
            if not low <= value <= high:
                raise GenomeError(f"feature group {number}: {name} is {value}; it must be {low} to {high}.")


def _groups(*texts: str) -> Featurizer:
    return tuple(GroupGenes(*map(int, text.split(".") if "." in text else text)) for text in texts)


_PLAIN, _SHORT, _TAPS = "1111211", "1321211", "1321111"

# Integer 1 of the operator genome -> featurizer genome. 1 to 9 are the paper's (A.6.2); 10 to 13 go beyond it.
FEATURIZERS: dict[int, Featurizer] = {
    1: _groups(_PLAIN, _PLAIN, _PLAIN),
    2: _groups(_SHORT, _SHORT, _SHORT),
    3: _groups(_PLAIN, "1111214", "1111214"),
    4: _groups(_PLAIN, "1111212", "1111212"),
    5: _groups(_SHORT, _SHORT, _SHORT, "1.3.2.1.2.16.1", "1.3.2.1.2.16.1"),
    6: _groups(_SHORT, _SHORT, _SHORT, "1321221", "1321221"),
    7: _groups(_TAPS, _TAPS, _TAPS, "2321111"),
    8: _groups(_TAPS, _TAPS, _TAPS, "3311111"),
    9: _groups("1111231", "1111231"),
    10: _groups(_PLAIN, _PLAIN, _PLAIN, "2321111"),
    11: _groups(_SHORT, _SHORT, _SHORT, "1.3.2.1.2.32.1", "1.3.2.1.2.32.1"),
    12: _groups(_SHORT, _SHORT, _SHORT, "3311111"),
    13: _groups(_SHORT, _SHORT, _SHORT, _SHORT, _SHORT),
}
PAPER_FEATURIZERS = tuple(range(1, 10))
