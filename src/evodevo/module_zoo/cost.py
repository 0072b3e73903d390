"""The cost of a zoo of modules, in parts that add up: senses, fusion, modules, router, heads.

Source: docs/spec/architect_thyself.md#keys.

``module_zoo/model.py`` builds exactly these parameters; a test recounts them, and the products.

Legend: L positions of the fused sequence, d width, N live modules, K modules that a sample may use.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from evodevo.errors import UsageError
from evodevo.module_zoo.encoders.cost import (
    fusion_parameters,
    fusion_work,
    senses_parameters,
    senses_work,
    side_lengths,
)
from evodevo.module_zoo.encoders.spec import EVERYTHING, Read, fused_length, read_inputs, sides
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.vector import VECTOR_SIZE
from evodevo.module_zoo.router.cost import router_parameters, router_work
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES, check_pass
from evodevo.networks.ends_cost import Ends
from evodevo.operators.cost import Cost, Mode, Work, total_work

_EMBEDDINGS = ("embeddings", "heads")


def zoo_cost(
    structure: ZooStructure,
    *,
    inputs: Sequence[NamedInput] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass on samples that have every input at its full length.

    ``flops`` lets every module run on every sample; ``executed_flops`` only those that are run in evaluation: with
    keys from genotypes K of N in the mean over all choices, with a predictor K + 1, with keys from outputs all.
    Embeddings, positions and heads are ``embedding_parameters``. Frozen parameters count, disabled modules too.

    Args:
        structure: structure of the zoo.
        inputs, outputs: inputs and outputs of the task; without inputs the senses and the fusion are left out.
        length: L, where there are no inputs.
        batch: samples.
        mode: ``prefill``, or ``train`` (three times the FLOPs, and every module runs); a whole pass in both.

    Raises:
        UsageError: the number of positions is missing, given twice or out of range; the batch is; mode ``decode``.
    """
    check_pass(batch, mode)
    parameters = zoo_parameters(structure, inputs, outputs, length)
    work = zoo_work(structure, inputs, outputs, length)
    modules, share = work.pop("modules"), executed_share(structure)
    around = total_work(work.values()).total
    passes = batch * (3 if mode == "train" else 1)
    run = Fraction(1) if mode == "train" else share
    read = sum(parameters.values()) - parameters["embeddings"] - round((1 - run) * parameters["modules"])
    return Cost(
        parameters=sum(count for part, count in parameters.items() if part not in _EMBEDDINGS),
        embedding_parameters=sum(parameters[part] for part in _EMBEDDINGS),
        cache_bytes=0,
        flops=passes * (around + modules.total),
        executed_flops=round(passes * (around + run * modules.total)),
        bytes_read=WEIGHT_BYTES * read,
    )


def ensemble_cost(
    structure: ZooStructure,
    *,
    inputs: Sequence[NamedInput] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one network per live module, each with senses and heads of its own; otherwise as ``zoo_cost``."""
    costs = [
        zoo_cost(member, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode).to_json()
        for member in ensemble_members(structure)
    ]
    return Cost(**{name: sum(cost[name] for cost in costs) for name in costs[0]})


def ensemble_members(structure: ZooStructure) -> list[ZooStructure]:
    """Zoos with one live module of the structure each, and a router that has nothing to choose and learns no choice.

    Raises:
        UsageError: there is no live module.
    """
    if not structure.live:
        raise UsageError("an ensemble needs at least one module that is not disabled.")
    alone = structure.model_copy(
        update={"router": structure.router.model_copy(update={"kind": "mean"}), "disabled": ()}
    )
    return [alone.model_copy(update={"modules": (module,)}) for module in structure.live]


def executed_share(structure: ZooStructure) -> Fraction:
    """The share of the modules' work that is done in evaluation, if all choices are equally likely.

    A gate that gives fewer than K modules a weight does less with keys from genotypes.
    """
    router, count = structure.router, len(structure.live)
    if router.kind != "graph_attention" or router.top_k is None or router.top_k >= count:
        return Fraction(1)
    chosen = {"output": count, "genotype": router.top_k, "predictor": router.top_k + 1}[router.keys]
    return Fraction(chosen, count)


def zoo_reads(structure: ZooStructure, inputs: Sequence[NamedInput]) -> frozenset[Read]:
    """Representations that a zoo reads of each modality: its tokens, and for the alignment of two sides also its
    vector."""
    aligned = bool(structure.losses.align) and all(sides(read_inputs(structure.without, inputs)))
    return EVERYTHING if aligned else frozenset({"tokens"})


def positions_read(structure: ZooStructure, inputs: Sequence[NamedInput], length: int | None = None) -> int | None:
    """S, the positions that the modules read: those of F, or the pieces of f; None where that is not known.

    Args:
        structure: structure of the zoo.
        inputs: inputs of the task.
        length: positions of F where there are no inputs.
    """
    if structure.mode == "vector":
        return structure.chunks
    first, second = _fused_sides(structure, read_inputs(structure.without, inputs))
    return length if first is None else fused_length(structure.fusion, first, second)


def _fused_sides(structure: ZooStructure, inputs: Sequence[NamedInput]) -> tuple[int | None, int | None]:
    """Positions of the sides that are fused; a single side is the first."""
    first, second = side_lengths(structure, inputs)
    return (second, None) if first is None else (first, second)


def zoo_parameters(
    structure: ZooStructure,
    inputs: Sequence[NamedInput] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
) -> dict[str, int]:
    """Parameters by part: those of the senses, fusion, alignment, modules, pool, router, readout, outputs, heads.

    ``length`` is L, where there are no inputs.
    """
    width, ends = structure.width, _ends(structure, outputs)
    inputs = read_inputs(structure.without, inputs)
    senses = senses_parameters(structure, structure.statistics, inputs, zoo_reads(structure, inputs))
    two_sided = None not in side_lengths(structure, inputs)
    chunk = (width // structure.chunks + 1) * width if structure.mode == "vector" else 0
    hidden = structure.readout
    maps = (positions_read(structure, inputs, length) or 0) * width**2
    pool = {"mean": 0, "attention": width, "positions": maps}[structure.pool]
    return {
        **senses,
        "fusion": fusion_parameters(width, structure.fusion, 2 if two_sided else 1),
        "alignment": 1 if two_sided and structure.losses.align else 0,  # the temperature
        "modules": sum(genotype_parameters(module.genotype) for module in structure.modules),
        "pool": chunk + pool,
        "router": router_parameters(structure.router, width, len(structure.modules), VECTOR_SIZE),
        "readout": 2 * width * hidden + hidden + 2 * width if hidden else 0,
        "outputs": ends.output_parameters(),
        "heads": ends.head_parameters(),
    }


def zoo_work(
    structure: ZooStructure,
    inputs: Sequence[NamedInput] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
) -> dict[str, Work]:
    """Work by part of one sample on which every live module runs: senses, fusion, modules, router, readout, outputs.

    Raises:
        UsageError: see ``zoo_cost``.
    """
    width, live = structure.width, structure.live
    inputs = read_inputs(structure.without, inputs)
    ends = _ends(structure, outputs)
    first, second = _fused_sides(structure, inputs)
    if inputs and length is None and first is not None:
        length = fused_length(structure.fusion, first, second)
        fusion = fusion_work(width, structure.fusion, first, second)
    elif inputs:
        raise UsageError("the inputs determine the number of positions; leave length out, or the inputs.")
    else:
        length, fusion = ends.length(length), Work()
    pieces = Work()
    if structure.mode == "vector":
        length, pieces = structure.chunks, Work(2 * width**2)
    products = {"mean": 0, "attention": 4 * length * width, "positions": 2 * length * width**2}
    pooled = Work(products[structure.pool])
    return {
        "senses": senses_work(structure, structure.statistics, inputs, zoo_reads(structure, inputs)),
        "fusion": fusion + pieces,
        "modules": total_work(genotype_work(module.genotype, length) + pooled for module in live),
        "router": router_work(structure.router, width, len(live), VECTOR_SIZE),
        "readout": Work(4 * width * structure.readout),
        "outputs": ends.output_work(length, visible=False),
    }


def _ends(structure: ZooStructure, outputs: Sequence[OutputSizes]) -> Ends:
    """Heads as those of an H-Model, without blocks; inputs are the senses' own."""
    return Ends((), outputs, structure.width, 0, 0, "segments", 0, causal=False, missing=False)
