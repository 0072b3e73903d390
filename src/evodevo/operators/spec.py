"""LIV operators as data: what each integer means, what compiles, and every shape.

An operator is compiled from its operator genome (five integers: featurizer class, token mixing, sparsity,
non-linearity, channel mixing; STAR A.6.2) and its featurizer genome. The result, an ``OperatorSpec``, names every
parameter and every tensor of the generation state with its shape. The torch operators create exactly these tensors
and the cost model sums exactly these shapes, so that the two agree by construction.

Legend: D model width, H heads, P head size, N state size per channel, K taps of a convolution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

from pydantic import Field

from evodevo.errors import GenomeError, UsageError
from evodevo.operators import featurizer_spec as genes
from evodevo.operators.featurizer_spec import Featurizer, GroupGenes, expanded
from evodevo.settings import Settings

OperatorGenome = tuple[int, int, int, int, int]
Differential = Literal["none", "literal", "v2"]
Structure = Literal["diagonal", "low_rank", "toeplitz", "semi_separable", "delta"]
Shape = tuple[int, ...]
Activation = Literal["relu", "gelu", "silu"]
"""Activation function of the hidden units of feed-forward networks."""

HEAD_SIZES = (64, 32, 16)
ATTENTION_TAPS = 3
RECURRENCE_TAPS = 4
FILTER_TAPS = 3
IMPLICIT_HIDDEN = 64
IMPLICIT_POSITIONS = 3
SPAN = 16
"""Chunks whose states are one product in the pass between chunks (``operators.chunk_states``)."""

# Groups in the order of the featurizer genome.
ROLES: dict[Structure, tuple[str, ...]] = {
    "diagonal": ("gate", "up"),
    "low_rank": ("query", "key", "value"),
    "toeplitz": ("value", "write", "read", "filter"),
    "semi_separable": ("value", "gate", "decay", "write", "read"),
    "delta": ("value", "gate", "decay", "write", "read"),
}
RECURRENT: tuple[Structure, ...] = ("semi_separable", "delta")
"""Structures with a state of constant size and a decay per head."""
# Groups in the order of the bits of a feature-group strategy (docs/spec/star.md#notation); queries are shared by option
# only.
SHARED_ROLES: dict[Structure, tuple[str, ...]] = {
    "diagonal": ("gate", "up"),
    "low_rank": ("key", "value", "query"),
    "toeplitz": ("value", "write", "read", "filter"),
    "semi_separable": ("value", "decay", "write", "read", "gate"),
    "delta": ("value", "decay", "write", "read", "gate"),
}
FAMILY: dict[Structure, str] = {
    "diagonal": "memoryless",
    "low_rank": "attention",
    "toeplitz": "convolution",
    "semi_separable": "recurrence",
    "delta": "recurrence",
}


class Dimensions(Settings):
    """The sizes that a genome leaves open.

    Attributes:
        width: channels D of the residual stream.
        head_size: channels P per head; the largest of 64, 32 and 16 that gives at least 4 heads if left out.
        band: number of tokens that a banded structure reads, its own included.
        long_filter: form of implicit filters: ``modal`` (sums of real exponentials: constant state) or ``mlp``
            (a sine network over positions, Hyena's: state grows with length and ends at ``max_length``).
        modes: exponentials per channel of a modal filter.
        max_length: positions of an ``mlp`` filter.
        chunk: tokens per chunk of the scan; changes speed and rounding, nothing else.
    """

    width: int = Field(ge=8, le=65536)
    head_size: int | None = Field(default=None, ge=2, le=512)
    band: int = Field(default=64, ge=2, le=65536)
    long_filter: Literal["modal", "mlp"] = "modal"
    modes: int = Field(default=16, ge=1, le=256)
    max_length: int = Field(default=4096, ge=1, le=1 << 20)
    chunk: int = Field(default=32, ge=1, le=512)

    @cached_property
    def head(self) -> int:
        """Head size P.

        Raises:
            UsageError: the width has no head size that divides it.
        """
        if self.head_size is not None:
            if self.width % self.head_size or self.head_size % 2:
                raise UsageError(
                    f"head size {self.head_size} does not fit width {self.width}: it must be even and divide the width."
                )
            return self.head_size
        for size in HEAD_SIZES:
            if self.width % size == 0 and self.width // size >= 4:
                return size
        raise UsageError(
            f"width {self.width} has no head size: it must be a multiple of 16 from 64 on, or head_size must be given."
        )

    @property
    def heads(self) -> int:
        """Number of heads H."""
        return self.width // self.head


@dataclass(frozen=True)
class StateTensor:
    """One tensor of the generation state, without its batch axis.

    Attributes:
        shape: shape of one time step if it grows, else of the whole tensor.
        grows: whether it keeps one entry per token.
        window: the most entries that are kept, if it grows.
        full_precision: kept in float32 whatever the activations are.
        in_star: counted by the paper's convention.
        depends_on: the groups that determine its content; two LIVs whose groups have the same origins share it.
    """

    shape: Shape
    depends_on: frozenset[str]
    grows: bool = False
    window: int | None = None
    full_precision: bool = False
    in_star: bool = True

    def entries(self, length: int) -> int:
        """Numbers held after ``length`` tokens."""
        if not self.grows:
            return prod(self.shape)
        return prod(self.shape) * (length if self.window is None else min(length, self.window))


@dataclass(frozen=True)
class OperatorSpec:
    """A compiled operator.

    ``groups`` maps role to genes. ``differential="literal"`` means two identical copies of everything here, with their
    difference as the output; ``"v2"`` doubles the queries only (DIFF V2).
    """

    operator: OperatorGenome
    featurizer: Featurizer
    differential: Differential
    structure: Structure
    groups: dict[str, GroupGenes] = field(compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Of integers alone: equal in every process. A search looks up some hundred specs per proposal.
        return hash((self.operator, self.featurizer))

    # Meaning

    @property
    def nonlinearity(self) -> int:
        """Code of the non-linearity over the token-mixing structure."""
        return self.operator[3]

    @property
    def banded(self) -> bool:
        """Whether the structure reads a band of tokens only."""
        return self.operator[2] == genes.BANDED

    @property
    def family(self) -> str:
        """attention, recurrence, convolution or memoryless."""
        return FAMILY[self.structure]

    @property
    def mixes_tokens(self) -> bool:
        """Whether a token's output depends on other tokens."""
        return self.structure != "diagonal" or any(self.taps(role) for role in self.groups)

    @property
    def copies(self) -> int:
        """2 for a literal differential operator."""
        return 2 if self.differential == "literal" else 1

    @property
    def repeat(self) -> int:
        """Number of query heads that share one key and value head."""
        return self.groups["key"].repeat if self.structure == "low_rank" else 1

    @property
    def keeps_scores(self) -> bool:
        """Low rank with a cache of keys and values; without it, linear attention with a matrix state."""
        return self.structure == "low_rank" and (self.nonlinearity != genes.LINEAR or self.banded)

    def ends(self, dims: Dimensions) -> bool:
        """Whether it reads at most ``max_length`` tokens: its filter is a function of that many positions."""
        implicit = self.structure == "toeplitz" and self.groups["filter"].parametrisation == genes.IMPLICIT
        return implicit and not self.banded and dims.long_filter == "mlp"

    def query_heads(self, dims: Dimensions) -> int:
        """Query heads: H, or 2H where every head has a second one to subtract."""
        return dims.heads * (2 if self.differential == "v2" else 1)

    def state_size(self, dims: Dimensions) -> int:
        """N: numbers per channel of a recurrent state."""
        if self.structure == "semi_separable":
            return self.groups["write"].expansion
        return dims.modes if self.structure == "toeplitz" else dims.head

    def inner(self, dims: Dimensions) -> int:
        """Channels that enter the output projection."""
        return expanded(self.groups["up"].expansion, dims.width) if self.structure == "diagonal" else dims.width

    def check(self, dims: Dimensions) -> None:
        """Raise ``GenomeError`` if the operator does not exist at these sizes."""
        if self.structure in ("low_rank", "semi_separable") and dims.heads % self.repeat:
            raise GenomeError(
                f"the operator {''.join(map(str, self.operator))} repeats keys and values {self.repeat} times; "
                f"width {dims.width} has {dims.heads} heads of {dims.head}, which {self.repeat} does not divide. "
                "Choose another width or head_size, or leave the class out."
            )
        short = self.structure == "toeplitz" and self.groups["filter"].parametrisation == genes.EXPLICIT
        if self.banded and short and dims.band < FILTER_TAPS:
            raise GenomeError(
                f"the operator {''.join(map(str, self.operator))} has a filter of {FILTER_TAPS} taps, and a band of "
                f"{dims.band} does not hold it; band must be at least {FILTER_TAPS}."
            )

    # Shapes

    def channels(self, role: str, dims: Dimensions) -> int:
        """Channels of a group's features."""
        width = dims.width
        if self.structure == "low_rank":
            return dims.head * self.query_heads(dims) if role == "query" else width // self.repeat
        if self.structure == "semi_separable":
            return {"decay": dims.heads, "write": self.state_size(dims), "read": self.state_size(dims)}.get(role, width)
        if self.structure == "delta":
            return 2 * dims.heads if role == "decay" else width  # a decay and a strength per head
        return width if self.structure == "toeplitz" else expanded(self.groups[role].expansion, width)

    def taps(self, role: str) -> int:
        """Taps of the short convolution over a group; 0 where there is none."""
        group = self.groups[role]
        if group.parametrisation != genes.PROJECTED or group.token_mixing != genes.TOEPLITZ:
            return 0
        if self.structure in RECURRENT:
            # The structure's own rule: the gene acts on values, writes and reads (docs/spec/star.md#recurrence).
            return RECURRENCE_TAPS if role in ("value", "write", "read") else 0
        return ATTENTION_TAPS

    def group_parameters(self, role: str, dims: Dimensions) -> dict[str, Shape]:
        """Name and shape of every parameter of a feature group."""
        group, channels, width = self.groups[role], self.channels(role, dims), dims.width
        if group.parametrisation == genes.EXPLICIT:
            return {"taps": (FILTER_TAPS, width)}
        if group.parametrisation == genes.IMPLICIT:
            if dims.long_filter == "modal":
                return {"residues": (width, dims.modes), "log_rates": (width, dims.modes), "direct": (width,)}
            return {
                "first": (IMPLICIT_HIDDEN, IMPLICIT_POSITIONS),
                "first_bias": (IMPLICIT_HIDDEN,),
                "second": (IMPLICIT_HIDDEN, IMPLICIT_HIDDEN),
                "second_bias": (IMPLICIT_HIDDEN,),
                "third": (width, IMPLICIT_HIDDEN),
                "direct": (width,),
            }
        shapes: dict[str, Shape] = {}
        if group.channel_mixing == genes.DENSE:
            shapes["weight"] = (channels, width)
        elif not self.taps(role):
            shapes["gain"] = (channels,)
        if self.taps(role):
            shapes["taps"] = (self.taps(role), channels)
        if role == "decay":
            shapes |= {"bias": (dims.heads,), "log_rate": (dims.heads,)}
        if self.structure == "semi_separable" and role == "read":
            shapes["direct"] = (width,)
        return shapes

    def own_parameters(self, dims: Dimensions) -> dict[str, Shape]:
        """Parameters that are never shared: the output projection and what belongs to it."""
        shapes: dict[str, Shape] = {"out": (dims.width, self.inner(dims))}
        if self.differential == "v2":
            shapes["subtract"] = (dims.heads, dims.width)
        if self.normalised:
            shapes["norm"] = (dims.width,)
        return shapes

    @property
    def normalised(self) -> bool:
        """Whether the mixed values are normalised before the output projection: where T's rows do not sum to one."""
        softmax = self.structure == "low_rank" and self.nonlinearity == genes.SOFTMAX
        return self.structure in ("low_rank", *RECURRENT) and not softmax

    def state(self, owned: frozenset[str], dims: Dimensions) -> dict[str, StateTensor]:
        """The tensors that one copy keeps while generating.

        Args:
            owned: the groups whose features it computes itself; the others are borrowed.
            dims: sizes.

        A tensor that depends on several groups is listed even if all of them are borrowed; whether another LIV keeps
        the identical one is for the backbone to find (``StateTensor.depends_on``).
        """
        tensors: dict[str, StateTensor] = {}
        for role in self.groups:
            if role in owned and (taps := self.taps(role)):
                channels = self.channels(role, dims)
                tensors[f"{role}_taps"] = StateTensor((taps - 1, channels), frozenset([role]), in_star=False)
        width, heads = dims.width, dims.heads
        if self.structure == "low_rank":
            kv_heads, window = heads // self.repeat, dims.band - 1 if self.banded else None
            if self.keeps_scores:
                for role in ("key", "value"):
                    if role in owned:
                        tensors[role] = StateTensor((kv_heads, dims.head), frozenset([role]), grows=True, window=window)
            else:
                both = frozenset(["key", "value"])
                tensors["matrix"] = StateTensor((kv_heads, dims.head, dims.head), both, full_precision=True)
        elif self.structure == "semi_separable":
            shape = (heads, self.state_size(dims), dims.head)
            tensors["matrix"] = StateTensor(shape, frozenset(["value", "decay", "write"]), full_precision=True)
        elif self.structure == "delta":
            shape = (heads, dims.head, dims.head)
            tensors["matrix"] = StateTensor(shape, frozenset(["value", "decay", "write"]), full_precision=True)
        elif self.structure == "toeplitz":
            inputs, filtered = frozenset(["value", "write"]), frozenset(["value", "write", "filter"])
            if self.groups["filter"].parametrisation == genes.EXPLICIT:
                tensors["inputs"] = StateTensor((FILTER_TAPS - 1, width), inputs, in_star=False)
            elif self.banded:
                tensors["inputs"] = StateTensor((dims.band - 1, width), inputs)
            elif dims.long_filter == "modal":
                tensors["modes"] = StateTensor((width, dims.modes), filtered, full_precision=True)
            else:
                tensors["inputs"] = StateTensor((width,), inputs, grows=True, window=dims.max_length)
        return tensors

    # Work

    def matmul_flops(self, owned: frozenset[str], dims: Dimensions, length: int, *, decode: bool, causal: bool) -> int:
        """FLOPs in matrix products of one copy, for one sequence.

        Args:
            owned: groups that it computes itself.
            dims: sizes.
            length: tokens of the pass, or tokens before the one that is decoded.
            decode: one token instead of ``length``.
            causal: count only the visible half of attention scores; else all that is computed.
        """
        tokens, width = 1 if decode else length, dims.width
        total = 2 * tokens * width * self.inner(dims)
        for role, group in self.groups.items():
            if role in owned and group.parametrisation == genes.PROJECTED and group.channel_mixing == genes.DENSE:
                total += 2 * tokens * width * self.channels(role, dims)
        if self.differential == "v2":
            total += 2 * tokens * width * dims.heads
        if self.keeps_scores:
            seen = self._visible(dims, length, decode=decode, causal=causal)
            total += 4 * seen * self.query_heads(dims) * dims.head
        elif self.structure in ("low_rank", "semi_separable"):
            total += self._scan_flops(dims, tokens)
        elif self.structure == "delta":
            total += self._delta_flops(dims, tokens, decode=decode)
        elif self.structure == "toeplitz" and self.groups["filter"].parametrisation == genes.IMPLICIT:
            total += self._filter_flops(dims, length, decode=decode)
        return total

    def other_flops(self, owned: frozenset[str], dims: Dimensions, length: int, *, decode: bool) -> int:
        """FLOPs outside matrix products of one copy: convolutions by taps, FFTs, gates.

        Source: docs/spec/star.md#static-cost.
        """
        tokens, width = 1 if decode else length, dims.width
        total = sum(2 * self.taps(role) * self.channels(role, dims) for role in self.groups if role in owned) * tokens
        total += tokens * self.inner(dims)
        if self.structure == "delta" and tokens > 1:
            chunk = min(dims.chunk, tokens)
            total += -(-tokens // chunk) * dims.heads * 2 * chunk * chunk * dims.head  # the triangular system
        if self.structure == "toeplitz":
            if self.groups["filter"].parametrisation == genes.EXPLICIT:
                total += tokens * width * 2 * FILTER_TAPS
            elif decode:
                modal = dims.long_filter == "modal" and not self.banded
                total += width * (4 * dims.modes if modal else 2 * (dims.band if self.banded else length))
            else:
                total += 20 * (2 * tokens).bit_length() * tokens * width
        return total

    def _visible(self, dims: Dimensions, length: int, *, decode: bool, causal: bool) -> int:
        """Pairs (query, key) of a pass."""
        band = dims.band if self.banded else None
        if decode:
            return length + 1 if band is None else min(length + 1, band)
        if not causal:
            return length * length
        if band is None or band >= length:
            return length * (length + 1) // 2
        return band * (band + 1) // 2 + (length - band) * band

    def _scan_flops(self, dims: Dimensions, tokens: int) -> int:
        """The products of ``operators.recurrence.scan`` as it is written: chunk scores, values, states, readout."""
        size, heads = self.state_size(dims), self.query_heads(dims)
        channels = heads * dims.head
        groups = heads if self.structure == "low_rank" else 1
        if tokens == 1:
            return 2 * channels * size
        chunk = min(dims.chunk, tokens)
        chunks = -(-tokens // chunk)
        passed = 0 if self.structure == "low_rank" else size * channels * _pass_flops(chunks)
        return chunks * (2 * chunk * chunk * (size * groups + channels) + 4 * chunk * size * channels) + passed

    def _delta_flops(self, dims: Dimensions, tokens: int, *, decode: bool) -> int:
        """The products of ``operators.delta.delta_scan`` as it is written: chunk scores, outputs, states."""
        heads, size = dims.heads, dims.head
        if tokens == 1:
            return (6 if decode else 4) * heads * size * size  # nothing is taken away from an empty state
        chunk = min(dims.chunk, tokens)
        return -(-tokens // chunk) * heads * (8 * chunk * chunk * size + 6 * chunk * size * size + 2 * size**3)

    def _filter_flops(self, dims: Dimensions, length: int, *, decode: bool) -> int:
        """Making the implicit filter: in every LIV that uses it, also where its weights are another's."""
        positions = min(length + 1 if decode else length, dims.band if self.banded else length + 1)
        if dims.long_filter == "mlp":
            hidden = IMPLICIT_HIDDEN
            return 2 * positions * (IMPLICIT_POSITIONS * hidden + hidden * hidden + hidden * dims.width)
        if decode and not self.banded:
            return 0
        block = min(dims.chunk, positions)
        return 2 * dims.width * dims.modes * block * -(-positions // block)


def _pass_flops(chunks: int) -> int:
    """FLOPs per number of a state of ``chunk_states.states_before_chunks``, without the state after the last chunk."""
    total = 0
    while chunks > SPAN:
        spans = -(-chunks // SPAN)
        size = -(-chunks // spans)
        total += 2 * spans * size * (size + 1)
        chunks = spans
    return total + (2 * chunks * chunks if chunks > 1 else 0)
