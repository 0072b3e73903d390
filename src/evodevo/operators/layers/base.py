"""The layers of a network: one class of plain data per kind, which also states its cost and builds its modules.

A kind is a row of ``LAYERS``. Its class holds the sizes, computes their cost, draws and mutates the layer,
and imports its modules in ``build``, so that descriptions load no torch. A field of type ``Layer`` takes every row.

Legend: S positions, d width of the messages, d_i channels inside a layer.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from pydantic import Field

from evodevo.errors import UsageError
from evodevo.operators.cost import Work
from evodevo.registry import Registry, table
from evodevo.settings import RowOf, Settings

if TYPE_CHECKING:
    from evodevo.operators.base import Operator
    from evodevo.operators.source.sheet import SourceSheet

RouterHead = Literal["feedforward", "linear", "channel", "constant", "independent"]


class LayerSizes(Protocol):
    """Sizes that a space of networks gives to all layers that it names by their kind alone.

    Attributes:
        heads: attention heads.
        feedforward: hidden units; None is twice the width.
        kernel: taps of a convolution.
        head_size, band: sizes of LIVs; see ``operators.spec.Dimensions``.
    """

    @property
    def heads(self) -> int: ...
    @property
    def feedforward(self) -> int | None: ...
    @property
    def kernel(self) -> int: ...
    @property
    def head_size(self) -> int | None: ...
    @property
    def band(self) -> int: ...


class LayerSpec(Settings):
    """One layer; a subclass is one kind.

    ``width`` in a method's arguments is d_i, the channels inside the adapters.

    Attributes:
        width: channels d_i inside, where they are not those of the messages: adapters d -> d_i -> d are put around.
        router: the routing head of this layer in an H-Model, where it is not the model's (``RouterStructure.head``).
        kind: name of the row in ``LAYERS``; a subclass narrows it to a ``Literal`` with that default.
    """

    width: int | None = Field(default=None, ge=1, le=65536)
    router: RouterHead | None = None
    kind: str

    kind_family: ClassVar[str] = "other"
    """Family of a layer of which only the kind is known: ``attention``, ``recurrence``, ``convolution``,
    ``memoryless``, or ``other`` for a kind whose layers are of several. It has a colour and a glyph in drawings."""

    # Cost

    def check(self, width: int) -> None:
        """Raise ``UsageError`` for sizes that do not fit each other or the width."""

    @abstractmethod
    def own_parameters(self, width: int, causal: bool) -> int:
        """Parameters with the norms, without adapters: exactly those of what ``build`` returns.

        Raises:
            UsageError: the layer does not exist at this width.
            NotFoundError, DataError: a file that it is described by is absent or not readable.
        """

    @abstractmethod
    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """Work of one call on one sample of S = ``length`` positions, without adapters.

        Args:
            width: d_i.
            length: S.
            causal: whether the model is causal.
            visible: count the visible half of causal attention scores only; else what is computed.
        """

    def own_context_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        """The part of ``own_work`` that positions cost at which no output is wanted (``Operator.at``): all of it by
        default, 0 of a layer without memory. Arguments as for ``own_work``."""
        return self.own_work(width, length, causal=causal, visible=visible)

    def own_state_bytes(self, width: int, length: int) -> int:
        """Bytes in float32 that the causal layer keeps per sample after S = ``length`` tokens; 0 keeps nothing."""
        return 0

    # Modules

    @abstractmethod
    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        """The layer without adapters, a whole block (norm and residual inside), drawn from the global random stream.

        Args:
            width: d_i.
            causal: no position depends on later ones; such a layer streams.
            residual: false takes the layer's residual connections away.

        Raises:
            UsageError: sizes that do not fit, or a layer that cannot be causal or cannot be without residuals.
        """

    # Source

    def source(self, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        """The expression that makes the module of ``build`` in a generated file; its classes are added to the sheet.

        Args:
            sheet: The file.
            width: d_i.
            causal, residual: See ``build``.

        Raises:
            UsageError: A kind without source, such as one of a package that has not written it.
        """
        raise UsageError(f"a layer of kind {self.kind!r} has no source; take --to pt2.")

    # Drawing

    @property
    def type_name(self) -> str:
        """Name under which sentences count the layer ("4 transformer"): its kind, or the operator that a kind leaves
        open."""
        return self.kind

    @property
    def label(self) -> str:
        """Name of this layer in a drawing."""
        return self.type_name.replace("_", " ")

    def family(self, width: int) -> str:
        """Family of this layer; see ``kind_family``."""
        return self.kind_family

    def sizes(self, width: int) -> str:
        """Sizes in few characters, for a drawing; empty for a kind without any."""
        return ""

    # Evolution and growth

    @classmethod
    def sized(cls, sizes: LayerSizes) -> Self | None:
        """The layer that a space means by the kind's name alone; None where a layer needs settings of its own."""
        return None

    def mutated(self, width: int, rng: np.random.Generator, chance: float) -> LayerSpec:
        """Another layer with the given chance, itself else; a kind without variants makes no draw.

        Args:
            width: d_i.
            rng: generator of all draws.
            chance: probability of a change, 0 to 1.
        """
        return self

    def check_part(self) -> None:
        """Raise ``UsageError`` for settings that only a whole network can have, such as losses on its routing."""

    @property
    def zoo_module(self) -> Any:
        """The module of a zoo (``ZooModule``) that this layer is and stays while the network grows; None for others."""
        return None

    @property
    def nesting(self) -> int:
        """Depth of H-Models inside the layer."""
        return 0

    @property
    def donor(self) -> tuple[str, int] | None:
        """Path and layer, from 0, of the pretrained model that it was taken from; None for others."""
        return None


LAYERS: Registry[type[LayerSpec]] = table("layer", "evodevo.layers")
"""Kind -> its class."""

Layer = Annotated[LayerSpec, RowOf(LAYERS)]
"""Any row, as a type of fields."""

CLASSIC = ("transformer", "mlp", "convolution", "lstm")
"""Kinds that a space of networks has by default, in the order in which it draws them."""
BUILT_IN = (*CLASSIC, "liv", "pretrained", "span", "h_model")
"""Kinds that vectors of modules count, in their order there; trained networks read these vectors."""


def family_of_kind(kind: str) -> str:
    """See ``LayerSpec.kind_family``; "other" where the row is not known here."""
    return LAYERS.get(kind).kind_family if kind in LAYERS else "other"


def counted_as(kind: str) -> str:
    """The built-in kind under which vectors of modules count a layer: itself, or the classic one of its family.

    A kind of no family counts by its parameters and its work alone.
    """
    if kind in BUILT_IN:
        return kind
    family = family_of_kind(kind)
    return next((name for name in CLASSIC if family != "other" and LAYERS.get(name).kind_family == family), kind)


LAYERS.add("transformer", "evodevo.operators.layers.transformer:TransformerLayer")
LAYERS.add("mlp", "evodevo.operators.layers.mlp:MLPLayer")
LAYERS.add("convolution", "evodevo.operators.layers.convolution:ConvolutionLayer")
LAYERS.add("lstm", "evodevo.operators.layers.lstm:LSTMLayer")
LAYERS.add("liv", "evodevo.operators.layers.liv:LIVLayer")
LAYERS.add("pretrained", "evodevo.operators.layers.pretrained:PretrainedLayer")
