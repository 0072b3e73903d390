"""Zoos of modules and their opponents for people: as sentences, and as drawings, one of them with the share of each
module in the answers by class or group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.diagrams.graph import NodeMark, module_graph_diagram
from evodevo.module_zoo.diagrams.zoo import InputMark, ModuleMark, Stage, module_zoo_diagram
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.families import family_of
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import words as genotype_words
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.stack import stacked
from evodevo.report.svg import one_line

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual

_FUSIONS = {
    "asym_residual": "one modality asks the other and keeps what it had",
    "paper": "one modality asks, values come from the other alone",
    "symmetric": "each modality asks the other",
    "concat": "both sequences side by side",
    "gmu": "a gated multimodal unit",
    "bilinear": "low-rank products",
}
_STYLES = {
    "concat_mlp": "pooled modalities side by side, an MLP of {layers} layers",
    "late_fusion": "a network per modality, an MLP over them, a loss for each",
    "gated_unit": "a gated multimodal unit, an MLP of {layers} layers",
    "two_stream": "two streams with co-attention, {layers} layers",
    "cross_modality": "one encoder per modality, then cross-attention both ways, {layers} layers",
    "switch": "{layers} blocks, each token to one of {experts} experts",
    "st_moe": "{layers} blocks, each token to two of {experts} experts",
    "soft_moe": "{layers} blocks, {experts} experts with {slots} slots each",
    "dyn_moe": "{layers} blocks, each token to as many of {experts} experts as it needs",
}


# Sentences


def zoo_words(structure: ZooStructure) -> list[str]:
    """A zoo in sentences: its modules, how modalities meet, how the router chooses, and what is not as usual then."""
    off = f"; switched off: {', '.join(structure.disabled)}" if structure.disabled else ""
    return [
        f"A zoo of width {structure.width}: {_pool_words(structure.live)}{off}.",
        *(f"{module.id}: {genotype_words(module.genotype)}." for module in structure.live),
        f"Fusion {fusion_words(structure.fusion)}; {reading_words(structure)}.",
        f"Router: {router_words(structure.router)}.",
        *_answer_words(structure),
    ]


def _answer_words(structure: ZooStructure) -> list[str]:
    """Pooling of the modules' outputs and the layer before the heads; nothing where these are a mean and none."""
    parts = [] if structure.pool == "mean" else [f"outputs of modules pooled by {structure.pool}"]
    parts += [f"{structure.readout} hidden units before the heads"] if structure.readout else []
    return [f"Answers: {', '.join(parts)}."] if parts else []


def ensemble_words(structure: ZooStructure) -> list[str]:
    """The mean of networks with one module each, in sentences."""
    together = f"{len(structure.live)} networks of width {structure.width} that answer together, one for each module"
    return [
        f"{together}: {_pool_words(structure.live)}.",
        f"Fusion {fusion_words(structure.fusion)}; each is trained as if it were alone.",
    ]


def baseline_words(structure: BaselineStructure) -> list[str]:
    """An opponent of a zoo in sentences."""
    made = _STYLES[structure.style].format(**structure.model_dump(include={"layers", "experts", "slots"}))
    return [f"{structure.style.replace('_', ' ')} of width {structure.width}, {structure.hidden} hidden: {made}."]


def fusion_words(fusion: FusionStructure) -> str:
    """``asym_residual: one modality asks …``, with what is not as usual."""
    usual = FusionStructure(kind=fusion.kind)
    changed = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in fusion.model_dump(exclude={"kind"}).items()
        if value != getattr(usual, name)
    ]
    return f"{fusion.kind}: {', '.join([_FUSIONS[fusion.kind], *changed])}"


def router_words(router: ZooRouterStructure) -> str:
    """Description of a router in one clause."""
    if router.kind == "mean":
        return "none, all modules count alike"
    limit = "all modules may count" if router.top_k is None else f"at most {router.top_k} modules per sample"
    parts = [router.kind.replace("_", " "), f"gate {router.gate}", limit]
    if router.kind == "graph_attention":
        parts[1:1] = [f"{router.heads} heads"]
        parts += [f"synergy {router.synergy}", f"keys from {router.keys}"]
    return ", ".join(parts)


def reading_words(structure: ZooStructure | BaselineStructure) -> str:
    """Description of the extractors of the inputs, in one clause."""
    named = [f"{name} by {_extractor_words(extractor)}" for name, extractor in structure.extractors.items()]
    others = "other inputs" if named else "inputs"
    return "; ".join([*named, f"{others} by {_extractor_words(structure.extractor)}"])


def _extractor_words(extractor: ExtractorStructure) -> str:
    if extractor.kind == "hugging_face":
        trained = {"none": "frozen", "last": f"last {extractor.last} layers trained", "all": "trained"}
        return f"{(extractor.path or '').rstrip('/').rpartition('/')[2]} ({trained[extractor.train]})"
    blocks = f"{extractor.blocks} block{'' if extractor.blocks == 1 else 's'} of our own"
    return f"{blocks} (patches with ReLU)" if extractor.activation == "relu" else blocks


def _pool_words(modules: Sequence[ZooModule]) -> str:
    counts = Counter(module.genotype.archetype for module in modules)
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no module"


# Drawings


def zoo_drawing(
    structure: ZooStructure, *, title: str, subtitle: str = "", routing: Mapping[str, Any] | None = None
) -> str:
    """The network as SVG.

    Args:
        structure: structure of the network.
        title, subtitle: text above the network.
        routing: routing of the trained network from ``module_zoo.router.report``; with it, cards show shares of the
            router, and inputs and outputs have names.
    """
    record = routing or {"ids": (), "weights": (), "executed": ()}
    weights = dict(zip(record["ids"], record["weights"], strict=True))
    sparse = any(share < 1 for share in record["executed"])
    run = dict(zip(record["ids"], record["executed"], strict=True)) if sparse else {}
    marks = [
        ModuleMark(
            module.id,
            module.genotype.archetype,
            family_of(module.genotype),
            genotype_words(module.genotype).split(", ")[1:],  # the first is its archetype, which the card shows already
            genotype_parameters(module.genotype),
            weights.get(module.id),
            run.get(module.id),
            module.id in structure.disabled,
        )
        for module in structure.modules
    ]
    inputs, outputs = record.get("inputs", ["inputs"]), record.get("outputs", ["outputs"])
    facts = [f"width {structure.width}"]
    if routing:
        facts.append(f"{routing['effective']:.2f} effective modules per sample, {routing['run']:.2f} are run")
    return module_zoo_diagram(
        marks,
        [InputMark(name, _extractor_words(structure.extractor_of(name))) for name in inputs],
        None if len(record.get("inputs", ())) == 1 else Stage("fusion", fusion_words(structure.fusion)),
        Stage("router", router_words(structure.router)),
        outputs,
        facts,
        title,
        subtitle,
    )


def drawing_of(structure: ZooStructure, individual: Individual, subtitle: str) -> str:
    """The network of a recorded individual, with what its router did if it was trained."""
    return zoo_drawing(structure, title=individual.id, subtitle=subtitle, routing=individual.fact.get("routing"))


def routing_drawings(routing: Mapping[str, Any]) -> dict[str, str]:
    """Fact -> its heat map as SVG; see ``module_zoo.router.report``."""
    drawn = {}
    for fact, table in routing.get("by", {}).items():
        sparse = any(value is not None and value < 1 for row in table["executed"] for value in row)
        drawn[fact] = module_routing_diagram(
            routing["ids"], table["values"], table["weights"], table["executed"] if sparse else None, fact
        )
    return drawn


def module_drawing(module: ModuleGenotype, *, title: str, subtitle: str = "") -> str:
    """The graph of one module as SVG."""
    graph = module.graph
    ends = [NodeMark(name, name, detail=f"width {module.width}", end=True) for name in (INPUT, OUTPUT)]
    nodes = [
        NodeMark(node.id, node.label, node.family, node.detail, title=f"from {node.lineage}" if node.lineage else "")
        for node in graph.nodes
    ]
    marks = [ends[0], *nodes, ends[1]]
    facts = [genotype_words(module), f"{genotype_parameters(module):,} parameters"]
    return module_graph_diagram(marks, graph.edges, facts, title, subtitle)


Rows = Sequence[Sequence[float | None]]


def module_routing_diagram(
    modules: Sequence[str], values: Sequence[str], weights: Rows, executed: Rows | None = None, fact: str = ""
) -> str:
    """Modules by the values of one fact as a heat map, as an SVG string.

    Args:
        modules: ids, the rows.
        values: values of the fact, the columns.
        weights: for each module and value the mean router weight; None where a value has no sample.
        executed: likewise the share of samples that the module is run on, a second map below; left out where every
            module runs on all.
        fact: name of the fact ("answer", "digit").
    """
    by = f" by {one_line(fact, 60)}" if fact else ""
    maps = [heat_map([HeatRows("", modules, weights)], values, f"mean router weight{by}")]
    if executed is not None:
        name = f"share of samples that a module is run on{by}"
        maps.append(heat_map([HeatRows("", modules, executed)], values, name, high=1.0))
    return maps[0] if len(maps) == 1 else stacked(maps, f"routing{by}")
