"""Expressions that cores of every stream write into generated files."""

from __future__ import annotations

from torch import Tensor

from evodevo.h_model.core import HCore
from evodevo.operators.source.sheet import Fragment, SourceSheet

TABLE = Fragment(
    "table",
    '''
def table(*rows):
    """Rows of 0 and 1 as booleans."""
    return torch.tensor([[one == "1" for one in row] for row in rows])
''',
)


def table_source(sheet: SourceSheet, one: Tensor) -> str:
    """The expression of a table of booleans."""
    if bool(one.all()):
        return f"torch.ones({one.shape[0]}, {one.shape[1]}, dtype=torch.bool)"
    rows = ", ".join('"' + "".join("1" if cell else "0" for cell in row) + '"' for row in one.tolist())
    return f"{sheet.add(TABLE)}({rows})"


def alpha_source(core: HCore, t: str) -> str:
    """The expression of the temperature in iteration ``t``, an expression too."""
    start, rate = core.alpha_at(0), core.alpha_rate
    structure = core.structure
    exact = core.alpha if core.alpha is not None else (structure.alpha_end or structure.alpha)
    return repr(start) if rate == 1 or t == "0" else f"max({exact!r} * {rate!r}**{t}, 1e-3)"
