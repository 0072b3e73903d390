"""What an aggregation of the H-Model is: one row of ``AGGREGATIONS``, one class without torch in one file.

To add a kind, write such a class ::

    class MyAggregation(AggregationSpec):
        kind: Literal["mine"] = "mine"
        power: float = Field(default=2.0, gt=0)

        def products(self, width, length, sources, targets, *, per_position): ...
        def build(self, sizes): ...  # imports its ``aggregations.module.Aggregation`` from the file beside it

and add ``"mine": "package.module:MyAggregation"`` to ``AGGREGATIONS``, or to the entry points ``evodevo.aggregations``
of a package. Structures, genomes, costs, training, growth and checkpoints find it by its kind. In files a kind whose
settings are all defaults is its name alone.

Legend: S positions, d width, K sources, N targets.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer

from evodevo.errors import UsageError
from evodevo.registry import Registry, table
from evodevo.settings import RowOf, Settings

if TYPE_CHECKING:
    from evodevo.h_model.aggregations.module import Aggregation as Module
    from evodevo.operators.source.sheet import SourceSheet

Normaliser = Literal["sum", "count", "softmax"]

AGGREGATIONS: Registry[type[AggregationSpec]] = table("aggregation", "evodevo.aggregations")
"""Kind -> its class."""

_ROWS = {
    "sum": "evodevo.h_model.aggregations.sum:SumAggregation",
    "attention": "evodevo.h_model.aggregations.attention:AttentionAggregation",
}
for _name, _row in _ROWS.items():
    AGGREGATIONS.add(_name, _row)
BUILT_IN = tuple(_ROWS)
"""Kinds of the library, in the order in which a space draws them by default."""


@dataclass(frozen=True)
class AggregationSizes:
    """Sizes of an H-Model that its aggregation depends on.

    Attributes:
        width: Width d.
        inputs, hidden: Number of sources of the input step, and of each iteration.
        targets: Number of targets, N.
        per_position: Whether connections are decided at each position; in a causal model they always are, and no
            position may depend on later ones.
        normaliser: The structure's ``normaliser``.
    """

    width: int
    inputs: int
    hidden: int
    targets: int
    per_position: bool = False
    normaliser: Normaliser = "sum"


class AggregationSpec(Settings):
    """One aggregation; a subclass is one kind.

    Attributes:
        kind: Name of the row in ``AGGREGATIONS``; a subclass narrows it to a ``Literal`` with that default.
    """

    kind: str

    def parameters(self, sizes: AggregationSizes) -> int:
        """Exact number of parameters of what ``build`` returns."""
        return 0

    @abstractmethod
    def products(self, width: int, length: int, sources: int, targets: int, *, per_position: bool) -> int:
        """FLOPs in matrix products of one aggregation of one sample of S = ``length`` positions."""

    @abstractmethod
    def build(self, sizes: AggregationSizes) -> Module:
        """The module, with parameters from the global random stream."""

    def source(self, sheet: SourceSheet, sizes: AggregationSizes) -> str:
        """The expression that makes the module in a generated file; its classes are added to the sheet.

        The module is called as ``Aggregation`` with ``of_input`` by position, and has the same parameters.

        Raises:
            UsageError: A kind without source, such as one of a package that has not written it.
        """
        raise UsageError(f"an aggregation of kind {self.kind!r} has no source; take --to pt2.")


def usual(kind: str) -> AggregationSpec:
    """The aggregation of a kind with its default settings.

    Raises:
        UsageError: An unknown kind.
    """
    return AGGREGATIONS.get(kind).model_validate({"kind": kind})


def _read(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _written(aggregation: AggregationSpec) -> Any:
    """The name alone where there are no settings, so that stored structures stay what they are."""
    given = aggregation.model_dump(exclude_defaults=True).keys() - {"kind"}
    return aggregation.model_dump(mode="json") if given else aggregation.kind


AggregationKind = Annotated[AggregationSpec, RowOf(AGGREGATIONS), BeforeValidator(_read), PlainSerializer(_written)]
"""Any row, as a type of fields."""
