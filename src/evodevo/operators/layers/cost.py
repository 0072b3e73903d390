"""What a layer costs: exact parameters, the work of one call on one sample, and what it keeps while generating.

``operators/layers/build.py`` builds exactly these parameters; a test recounts them, and the matrix products.

Legend: S positions, d width of the messages, d_i width inside, F hidden units, K taps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.span_spec import span_plans
from evodevo.errors import UsageError
from evodevo.operators.classes import OPERATORS
from evodevo.operators.compile import compile_operator
from evodevo.operators.layers.spec import (
    ConvolutionLayer,
    GenotypeLayer,
    Layer,
    LIVLayer,
    LSTMLayer,
    MLPLayer,
    NestedLayer,
    PretrainedLayer,
    SpanLayer,
    TransformerLayer,
)
from evodevo.operators.pretrained.spec import PretrainedSizes, read_sizes
from evodevo.operators.spec import Dimensions, OperatorSpec
from evodevo.search.genome_text import parse_segments

if TYPE_CHECKING:
    from evodevo.h_model.spec import HModelStructure
    from evodevo.module_zoo.modules.spec import ModuleGenotype

STATE_BYTES = 4


class Work(NamedTuple):
    """FLOPs; a multiply-add counts two.

    Attributes:
        products: in matrix products and convolutions over channels.
        other: convolutions by taps, FFTs, gates. Norms, softmax and activations are left out, as in ``backbone_cost``.
    """

    products: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.products + self.other

    def __add__(self, more: object) -> Work:
        if not isinstance(more, Work):
            return NotImplemented
        return Work(self.products + more.products, self.other + more.other)

    def times(self, count: int) -> Work:
        """The work of ``count`` calls."""
        return Work(count * self.products, count * self.other)


def total_work(parts: Iterable[Work]) -> Work:
    """The sum."""
    total = Work()
    for part in parts:
        total += part
    return total


def layer_parameters(spec: Layer, width: int, causal: bool) -> int:
    """Parameters of a layer with its norms and adapters.

    Raises:
        UsageError: the layer does not exist at this width.
        NotFoundError, DataError: the configuration of a pretrained layer is not there or not readable.
    """
    inner = spec.width or width
    if isinstance(spec, TransformerLayer) and inner % spec.heads:
        raise UsageError(f"{spec.heads} attention heads do not divide the width {inner}; take one of its divisors.")
    if isinstance(spec, ConvolutionLayer) and spec.kernel % 2 == 0:
        raise UsageError(f"a convolution of {spec.kernel} taps has no centre; take {spec.kernel - 1}.")
    return _adapter_parameters(spec, width) + _own_parameters(spec, inner, causal)


def layer_work(spec: Layer, width: int, length: int, *, causal: bool, visible: bool = True) -> Work:
    """Work of one call on one sample of S positions.

    Args:
        spec: the layer.
        width: of the messages.
        length: S.
        causal: as the model is.
        visible: count the visible half of causal attention scores only; else what is computed.
    """
    inner = spec.width or width
    adapters = 4 * length * width * inner if spec.width is not None else 0
    return Work(adapters) + _own_work(spec, inner, length, causal, visible)


def layer_state_bytes(spec: Layer, width: int, length: int) -> int:
    """What a causal layer keeps per sample after S tokens, in float32."""
    inner = spec.width or width
    if isinstance(spec, TransformerLayer):
        return STATE_BYTES * 2 * length * inner
    if isinstance(spec, ConvolutionLayer):
        return STATE_BYTES * (spec.kernel - 1) * inner
    if isinstance(spec, LSTMLayer):
        return STATE_BYTES * 2 * inner
    if isinstance(spec, LIVLayer):
        operator, dims = liv_operator(spec, inner)
        tensors = operator.state(frozenset(operator.groups), dims).values()
        return STATE_BYTES * operator.copies * sum(tensor.entries(length) for tensor in tensors)
    if isinstance(spec, SpanLayer):
        plans, dims = span_plans(spec, inner)
        return backbone_cost(plans, dims, length=length, convention="actual").cache_bytes
    return _nested_state_bytes(spec, inner, length) if isinstance(spec, NestedLayer) else 0


def _adapter_parameters(spec: Layer, width: int) -> int:
    return 0 if spec.width is None else 2 * width * spec.width + width + spec.width


# By kind


def _own_parameters(spec: Layer, width: int, causal: bool) -> int:
    if isinstance(spec, TransformerLayer):
        return 4 * width**2 + 5 * width + _feedforward_parameters(width, spec.feedforward or 2 * width)
    if isinstance(spec, MLPLayer):
        return _feedforward_parameters(width, spec.hidden or 2 * width)
    if isinstance(spec, ConvolutionLayer):
        return width + spec.kernel * width + width**2
    if isinstance(spec, LSTMLayer):
        return width + (1 if causal else 2) * 8 * width * (width + 1)
    if isinstance(spec, LIVLayer):
        operator, dims = liv_operator(spec, width)
        return width + (1 if causal else 2) * operator_parameters(operator, dims)
    if isinstance(spec, PretrainedLayer):
        return pretrained_sizes(spec, width).parameters
    if isinstance(spec, SpanLayer):
        return (1 if causal else 2) * _span_parameters(spec, width)
    if isinstance(spec, GenotypeLayer):
        return _module_parameters(spec, width, causal)
    return sum(_nested_parameters(spec, width).values())


def _own_work(spec: Layer, width: int, length: int, causal: bool, visible: bool) -> Work:
    if isinstance(spec, TransformerLayer):
        return Work(8 * length * width**2 + _scores(width, length, causal and visible)) + _feedforward_work(
            width, spec.feedforward or 2 * width, length
        )
    if isinstance(spec, MLPLayer):
        return _feedforward_work(width, spec.hidden or 2 * width, length)
    if isinstance(spec, ConvolutionLayer):
        return Work(2 * length * width * width, 2 * length * spec.kernel * width)
    if isinstance(spec, LSTMLayer):
        return Work((1 if causal else 2) * 16 * length * width**2)
    if isinstance(spec, LIVLayer):
        operator, dims = liv_operator(spec, width)
        every = frozenset(operator.groups)
        one = Work(
            operator.matmul_flops(every, dims, length, decode=False, causal=visible),
            operator.other_flops(every, dims, length, decode=False),
        )
        return one.times(operator.copies * (1 if causal else 2))
    if isinstance(spec, PretrainedLayer):
        sizes = pretrained_sizes(spec, width)
        products = 8 * length * width**2 + _scores(width, length, False)
        return Work(products) + _feedforward_work(width, sizes.feedforward, length)
    if isinstance(spec, SpanLayer):
        return _span_work(spec, width, length, visible).times(1 if causal else 2)
    if isinstance(spec, GenotypeLayer):
        return _module_work(spec, width, length, causal)
    return _nested_work(spec, width, length, visible)


def _feedforward_parameters(width: int, hidden: int) -> int:
    return width + 2 * width * hidden + width + hidden


def _feedforward_work(width: int, hidden: int, length: int) -> Work:
    return Work(4 * length * width * hidden)


def _scores(width: int, length: int, half: bool) -> int:
    """Scores and mixed values of all heads."""
    pairs = length * (length + 1) // 2 if half else length * length
    return 4 * pairs * width


# Layers that are described elsewhere


def pretrained_sizes(spec: PretrainedLayer, width: int) -> PretrainedSizes:
    """Sizes of a pretrained layer whose channels inside are ``width``.

    Raises:
        UsageError: the model has other channels or fewer layers.
    """
    sizes = read_sizes(spec.path)
    if sizes.width != width:
        raise UsageError(
            f"the model at {spec.path} has {sizes.width} channels, not {width}: set the layer's width to "
            f"{sizes.width}, and adapters are put around it."
        )
    if spec.index >= sizes.layers:
        raise UsageError(f"layer {spec.index} of {spec.path}: the model has layers 0 to {sizes.layers - 1}.")
    return sizes


def _span_parameters(spec: SpanLayer, width: int) -> int:
    plans, dims = span_plans(spec, width)
    # A whole backbone ends with a norm; a span does not.
    return backbone_cost(plans, dims, length=1, convention="actual").parameters - width


def _span_work(spec: SpanLayer, width: int, length: int, visible: bool) -> Work:
    plans, dims = span_plans(spec, width)
    return total_work(
        Work(
            plan.spec.matmul_flops(plan.owned, dims, length, decode=False, causal=visible),
            plan.spec.other_flops(plan.owned, dims, length, decode=False),
        ).times(plan.spec.copies)
        for plan in plans
    )


def _nested_parameters(spec: NestedLayer, width: int) -> dict[str, int]:
    from evodevo.h_model.cost import core_parameters  # its hidden layers are layers

    return core_parameters(_inner(spec, width), 1, 1)


def _nested_work(spec: NestedLayer, width: int, length: int, visible: bool) -> Work:
    from evodevo.h_model.cost import core_work

    return total_work(core_work(_inner(spec, width), length, 1, 1, visible=visible).values())


def _nested_state_bytes(spec: NestedLayer, width: int, length: int) -> int:
    from evodevo.h_model.cost import core_state_bytes

    return core_state_bytes(_inner(spec, width), 1, length)


def _inner(spec: NestedLayer, width: int) -> HModelStructure:
    if spec.structure.width != width:
        raise UsageError(
            f"an H-Model of width {spec.structure.width} among channels of width {width}: set the layer's width to "
            f"{spec.structure.width}, and adapters are put around it."
        )
    return spec.structure


# Modules of a zoo


def checked_genotype(spec: GenotypeLayer, width: int, causal: bool) -> ModuleGenotype:
    """The genotype of a layer among channels of that width.

    Raises:
        UsageError: it is made for another width, or looks at other positions in a causal model.
        GenomeError: its graph is none.
    """
    from evodevo.module_zoo.modules.cost import looks_at_others
    from evodevo.module_zoo.modules.graph import check_graph  # some of its nodes are layers

    name, genotype = spec.module.id, spec.module.genotype
    if genotype.width != width:
        raise UsageError(
            f"the module {name!r} is made for width {genotype.width}, not {width}: set the layer's width to "
            f"{genotype.width}, and adapters are put around it."
        )
    check_graph(genotype.graph, genotype.width)
    others = [node.id for node in genotype.graph.nodes if looks_at_others(node)] if causal else []
    if others:
        raise UsageError(
            f"the module {name!r} looks at later positions by its node {others[0]!r}; a causal model can only have "
            "modules that look at each position alone, such as the archetype mlp."
        )
    return genotype


def _module_parameters(spec: GenotypeLayer, width: int, causal: bool) -> int:
    from evodevo.module_zoo.modules.cost import genotype_parameters

    return genotype_parameters(checked_genotype(spec, width, causal))


def _module_work(spec: GenotypeLayer, width: int, length: int, causal: bool) -> Work:
    from evodevo.module_zoo.modules.cost import genotype_work

    return genotype_work(checked_genotype(spec, width, causal), length)


# LIV operators


def liv_operator(spec: LIVLayer, width: int) -> tuple[OperatorSpec, Dimensions]:
    """The compiled operator of a LIV layer and its sizes.

    Raises:
        UsageError: no such class, a genome that does not compile, or a width without heads.
    """
    dims = Dimensions(width=width, head_size=spec.head_size, band=spec.band)
    operator = _compiled(spec.operator)
    operator.check(dims)
    return operator, dims


@lru_cache(maxsize=256)
def _compiled(text: str) -> OperatorSpec:
    if text[:1].isdigit():
        (genes,) = parse_segments(text, 5, what="operator genome", most=1)
        return compile_operator(genes, None, "none")
    return OPERATORS.get(text).spec


def operator_parameters(operator: OperatorSpec, dims: Dimensions) -> int:
    """Parameters of an operator that owns all its groups."""
    own = sum(prod(shape) for shape in operator.own_parameters(dims).values())
    groups = sum(prod(shape) for role in operator.groups for shape in operator.group_parameters(role, dims).values())
    return operator.copies * (own + groups)
