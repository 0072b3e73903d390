"""The table of LIV classes, numbered by the first integer of a backbone segment (STAR A.6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from evodevo.errors import UsageError
from evodevo.operators.compile import compile_operator
from evodevo.operators.featurizer_spec import Featurizer
from evodevo.operators.spec import Differential, OperatorGenome, OperatorSpec
from evodevo.registry import Registry, table


@dataclass(frozen=True)
class LIVClass:
    """A row of the table of LIV classes: a class that the first integer of a backbone segment denotes.

    Attributes:
        number: the integer.
        name: name in the paper where it has one.
        operator: operator genome.
        differential: see ``compile_operator``.
        featurizer: featurizer genome in the place of the one that the operator's first integer denotes.
        sampled: whether spaces offer it by default (the paper's option pool, A.6.1).
    """

    number: int
    name: str
    operator: OperatorGenome
    differential: Differential = "none"
    sampled: bool = False
    featurizer: Featurizer | None = None

    @cached_property
    def spec(self) -> OperatorSpec:
        """The compiled operator."""
        return _compiled(self.operator, self.featurizer, self.differential)


@lru_cache(maxsize=1024)
def _compiled(operator: OperatorGenome, featurizer: Featurizer | None, differential: Differential) -> OperatorSpec:
    return compile_operator(operator, featurizer, differential)


OPERATORS: Registry[LIVClass] = table("LIV class", "evodevo.operators")

_PAPER: tuple[tuple[str, OperatorGenome], ...] = (
    ("SA-1", (1, 2, 1, 2, 1)),
    ("SA-2", (2, 2, 1, 2, 1)),
    ("SA-3", (3, 2, 1, 2, 1)),
    ("SA-4", (4, 2, 1, 2, 1)),
    ("Rec-1", (5, 4, 1, 1, 1)),
    ("Rec-2", (6, 4, 1, 1, 1)),
    ("GConv-1", (7, 3, 1, 1, 1)),
    ("GConv-2", (8, 3, 1, 1, 1)),
    ("GMemless", (9, 1, 1, 4, 2)),
)
for _number, (_name, _genome) in enumerate(_PAPER, 1):
    OPERATORS.add(_name, LIVClass(_number, _name, _genome, sampled=True))
for _number, (_name, _genome) in enumerate(_PAPER[:8], 10):
    OPERATORS.add(f"{_name}-Diff", LIVClass(_number, f"{_name}-Diff", _genome, "literal", sampled=True))
# Beyond the paper: the baselines' Mamba, dense gated convolutions (LFM2, Hyena), DIFF V2 attention, and the
# gated delta rule.
OPERATORS.add("Mamba", LIVClass(18, "Mamba", (11, 4, 1, 1, 1)))
OPERATORS.add("GConv-1-Dense", LIVClass(19, "GConv-1-Dense", (10, 3, 1, 1, 1)))
OPERATORS.add("GConv-2-Dense", LIVClass(20, "GConv-2-Dense", (12, 3, 1, 1, 1)))
OPERATORS.add("SA-1-DiffV2", LIVClass(21, "SA-1-DiffV2", (1, 2, 1, 2, 1), "v2"))
OPERATORS.add("GatedDelta", LIVClass(22, "GatedDelta", (13, 5, 1, 1, 1)))


def liv_classes() -> dict[int, LIVClass]:
    """All classes by number.

    Raises:
        UsageError: two rows claim one number.
    """
    rows = [OPERATORS.get(name) for name in OPERATORS]
    classes = {row.number: row for row in rows}
    if len(classes) != len(rows):
        raise UsageError("two LIV classes have the same number; a plugin must choose an unused one.")
    return dict(sorted(classes.items()))
