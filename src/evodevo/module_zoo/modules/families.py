"""Families of modules: which there are, what their members differ in, and their graphs (eq. 17).

Source: docs/spec/architect_thyself.md#families.

A family's graph follows from its attributes, so that a member is a handful of numbers and names. Free graphs are
hybrids: of no family, without attributes but those of their nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evodevo.errors import GenomeError, UsageError, unknown_name
from evodevo.module_zoo.modules import presets as zoo_presets
from evodevo.module_zoo.modules.attributes import Attribute, Category, Factor, Grid, Kind, Share, Subset
from evodevo.module_zoo.modules.graph import check_graph, graph_hash
from evodevo.module_zoo.modules.operator_text import OperatorText
from evodevo.module_zoo.modules.repair import repair_graph
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph
from evodevo.registry import Registry, table


@dataclass(frozen=True)
class Dimension:
    """What the width or the depth of a family's members is.

    Attributes:
        attribute: attribute that says it; empty where members have no such dimension.
        fewer: whether a smaller value is more.
        unless: (attribute, value) with which a member cannot be enlarged without a change of what it answers -> why.
        without: why there is none.
    """

    attribute: str = ""
    fewer: bool = False
    unless: Mapping[tuple[str, Attribute], str] = field(default_factory=dict)
    without: str = "its family names none"


@dataclass(frozen=True)
class Archetype:
    """A family of modules.

    Attributes:
        title: name in texts.
        attributes: attributes in which its members differ (Omega_a of eq. 17).
        graph: (width, attributes) -> the graph; node ids stay where attributes change, so that units correspond.
        family: colour in drawings, as ``LayerSpec.kind_family``; None follows most of the nodes of a member.
        width, depth: Names of the attributes that ``widen`` and ``deepen`` enlarge (``modules/sizes.py``).
    """

    title: str
    attributes: Mapping[str, Kind]
    graph: Callable[[int, Mapping[str, Any]], ModuleGraph]
    family: str | None = None
    width: Dimension = Dimension()
    depth: Dimension = Dimension()


_DROPOUT = Share(high=0.5, default=0.1)
_ACTIVATION = Category(("relu", "gelu", "silu"), "gelu")
_HEADS = Grid((1, 2, 4, 8, 16), 4, divides=True)

ARCHETYPES: Registry[Archetype] = table("archetype", "evodevo.archetypes")
ARCHETYPES.add(
    "transformer",
    Archetype(
        "transformer",
        {
            "depth": Grid((1, 2, 3, 4), 1),
            "heads": _HEADS,
            "feedforward_factor": Factor(0.5, 4.0, 2.0),
            "dropout": _DROPOUT,
            "activation": _ACTIVATION,
            "form": Category(("parallel", "sequential", "paper"), "parallel"),
        },
        zoo_presets.transformer,
        "attention",
        Dimension("feedforward_factor"),
        Dimension("depth", unless={("form", "paper"): "the form 'paper' has no residual around its blocks"}),
    ),
)
ARCHETYPES.add(
    "mlp",
    Archetype(
        "MLP",
        {
            "hidden_factor": Factor(0.25, 4.0, 2.0),
            "depth": Grid((1, 2, 3), 1),
            "dropout": _DROPOUT,
            "activation": _ACTIVATION,
            "outer": Category(("none", "sigmoid"), "none"),
        },
        zoo_presets.mlp,
        "memoryless",
        Dimension("hidden_factor"),
        Dimension(without="its blocks have no residual, so that a further one changes what it answers"),
    ),
)
ARCHETYPES.add(
    "resnet1d",
    Archetype(
        "ResNet1D",
        {
            "depth": Grid((1, 2, 3, 4), 2),
            "kernel": Grid((1, 3, 5, 7), 3),
            "width_factor": Factor(0.25, 2.0, 1.0),
            "dropout": _DROPOUT,
            "activation": _ACTIVATION,
        },
        zoo_presets.resnet1d,
        "convolution",
        Dimension("width_factor"),
        Dimension("depth"),
    ),
)
ARCHETYPES.add(
    "lstm",
    Archetype(
        "LSTM",
        {
            "hidden_factor": Factor(0.125, 1.0, 0.5),
            "layers": Grid((1, 2), 1),
            "both_ways": Category((False, True), True),
            "dropout": _DROPOUT,
        },
        zoo_presets.lstm,
        "recurrence",
        Dimension("hidden_factor"),
        Dimension(without="its layers have no residual, so that a further one changes what it answers"),
    ),
)
ARCHETYPES.add(
    "cnn",
    Archetype(
        "CNN",
        {
            "kernels": Subset((1, 3, 5, 7, 9), (3, 5, 7)),
            "channel_factor": Factor(0.125, 1.0, 0.5),
            "dropout": _DROPOUT,
            "activation": _ACTIVATION,
        },
        zoo_presets.cnn,
        "convolution",
        Dimension("channel_factor"),
        Dimension(without="its kernels lie side by side"),
    ),
)
ARCHETYPES.add("squeeze_excite", "evodevo.module_zoo.modules.nodes.squeeze_excite:SQUEEZE_EXCITE")
_WHOLE = Dimension(without="a layer of the library is copied as a whole or not at all")
ARCHETYPES.add(
    "operator",
    Archetype("operator", {"operator": OperatorText()}, zoo_presets.operator, width=_WHOLE, depth=_WHOLE),
)

PAPER = ("transformer", "mlp", "resnet1d", "lstm", "cnn", "squeeze_excite")
"""The paper's families (appendix E, Table 3)."""


# Making and checking


def archetype(name: str, width: int, **attributes: Attribute) -> ModuleGenotype:
    """A member of a family; what is left out is the default, or what is nearest to it at this width.

    Raises:
        UsageError: an unknown family or attribute, or a value that is not allowed at this width.
    """
    family = ARCHETYPES.get(name)
    for given, value in attributes.items():
        if given not in family.attributes:
            raise unknown_name(f"attribute of the archetype {name!r}", given, family.attributes)
        kind = family.attributes[given]
        if not kind.allows(value, width):
            raise UsageError(f"{given} of {name!r} is {value!r}; allowed: {kind.allowed(width)}.")
    return member(name, width, attributes)


def member(name: str, width: int, attributes: Mapping[str, Attribute]) -> ModuleGenotype:
    """A member of a family, each attribute brought to what is allowed."""
    family = ARCHETYPES.get(name)
    whole = {key: kind.near(attributes.get(key, kind.default), width) for key, kind in family.attributes.items()}
    graph = family.graph(width, whole)
    check_graph(graph, width)
    return ModuleGenotype(archetype=name, width=width, attributes=whole, graph=graph)


def check_genotype(genotype: ModuleGenotype) -> None:
    """Raise ``GenomeError`` where a genotype builds no module, or where its graph does not follow from its attributes;
    ``UsageError`` for an unknown family or a wrong attribute.
    """
    check_graph(genotype.graph, genotype.width)
    if genotype.archetype == HYBRID:
        if genotype.attributes:
            raise GenomeError(f"a hybrid has no attributes but its nodes'; leave {sorted(genotype.attributes)} out.")
        return
    wanted = archetype(genotype.archetype, genotype.width, **genotype.attributes)
    if graph_hash(wanted.graph) != graph_hash(genotype.graph):
        raise GenomeError(
            f"the graph is not the one that the attributes of this {wanted.archetype!r} give; take the one that "
            f"archetype() makes, or call the module a {HYBRID!r} without attributes."
        )


def repair(genotype: ModuleGenotype) -> ModuleGenotype:
    """The genotype itself if it is valid; else one of its family near it, or a hybrid with a mended graph."""
    try:
        check_genotype(genotype)
    except UsageError:
        if genotype.archetype not in ARCHETYPES:
            graph = repair_graph(genotype.graph, genotype.width)
            return genotype.model_copy(update={"archetype": HYBRID, "attributes": {}, "graph": graph})
        kinds = ARCHETYPES.get(genotype.archetype).attributes
        sensible = {
            key: value
            for key, value in genotype.attributes.items()
            if key in kinds and _type(value) == _type(kinds[key].default)
        }
        return member(genotype.archetype, genotype.width, sensible)
    return genotype


def _type(value: Attribute) -> type:
    return float if type(value) is int else type(value)


# Drawing


def family_of_archetype(archetype: str) -> str:
    """The family of a module of which only the archetype is known; "other" where members differ in it."""
    return (ARCHETYPES.get(archetype).family if archetype in ARCHETYPES else None) or "other"


def family_of(module: ModuleGenotype) -> str:
    """The family of a module: its archetype's; of an operator or a hybrid that of most of its nodes."""
    own = ARCHETYPES.get(module.archetype).family if module.archetype in ARCHETYPES else None
    if own is not None:
        return own
    counts = Counter(node.family for node in module.graph.nodes)
    counts.pop("other", None)
    return counts.most_common(1)[0][0] if counts else "other"
