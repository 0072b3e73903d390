"""Mixtures of experts as a row of the table of networks: a stack of them, or one in a loop, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.cost import WEIGHT_BYTES, check_pass
from evodevo.networks.draw import ends_words
from evodevo.networks.ends_cost import Ends
from evodevo.networks.mixtures.cost import mixture_parameters, mixture_work
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.operators.cost import Cost, Mode, Work
from evodevo.operators.layers.transformer import attention_parameters, attention_state_bytes, attention_work

if TYPE_CHECKING:
    from evodevo.networks.mixtures.mixture_model import MixtureStack
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec

_NAMES = {"switch": "Switch", "st_moe": "ST-MoE", "soft_moe": "Soft MoE", "dyn_moe": "DynMoE"}


def mixture_cost(
    structure: MixtureStructure,
    *,
    inputs: Sequence[InputSizes] = (),
    outputs: Sequence[OutputSizes] = (),
    length: int | None = None,
    batch: int = 1,
    mode: Mode = "prefill",
) -> Cost:
    """Cost of one pass; arguments and errors as in ``NetworkSpec.cost``.

    Of ``dyn_moe`` the most that it can do: every expert runs on every position. ``bytes_read`` counts the weights of
    all experts, which a batch of many positions reads. Capacity drops positions while training alone and is left out.
    """
    check_pass(batch, mode)
    width = structure.width
    ends = Ends(
        inputs,
        outputs,
        width,
        structure.input_blocks,
        structure.output_blocks,
        structure.canvas,
        structure.canvas_slots,
        structure.causal,
        structure.missing,
    )
    positions = ends.length(length)
    attends = structure.heads is not None
    one = width + mixture_parameters(structure) + (attention_parameters(width) if attends else 0)
    parameters = ends.input_parameters() + ends.output_parameters() + structure.built * one
    parameters += (structure.routers - 1) * structure.experts * width
    parameters += structure.depth * width if structure.iteration_embedding else 0
    flops, executed = (
        (
            ends.input_work(visible=visible)
            + _step_work(structure, positions, visible=visible).times(structure.depth)
            + ends.output_work(positions, visible=visible)
        ).total
        for visible in (True, False)
    )
    kept = structure.depth * attention_state_bytes(width, positions) if attends else 0
    cache = batch * (kept + ends.state_bytes(positions)) if structure.causal else 0
    passes = batch * (3 if mode == "train" else 1)
    read = parameters + (structure.depth - structure.built) * one + ends.head_parameters()
    return Cost(
        parameters=parameters,
        embedding_parameters=ends.embedding_parameters() + ends.head_parameters(),
        cache_bytes=cache,
        flops=passes * flops,
        executed_flops=passes * executed,
        bytes_read=WEIGHT_BYTES * read + cache,
    )


def _step_work(structure: MixtureStructure, length: int, *, visible: bool) -> Work:
    """Work of one pass of one mixture on one sample, with the attention before it; ``visible`` as in ``LayerSpec``."""
    work = mixture_work(structure, length)
    if structure.heads is None:
        return work
    return attention_work(structure.width, length, half=structure.causal and visible) + work


class MixtureNetwork(NetworkSpec):
    """A stack of mixtures of experts, or one in a loop."""

    kind: Literal["mixture"] = "mixture"
    structure: MixtureStructure = MixtureStructure()
    structure_cost: ClassVar[Callable[..., Cost]] = staticmethod(mixture_cost)

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        structure = self.structure
        slots = f" with {structure.slots} slots each" if structure.style == "soft_moe" else ""
        how = (
            f"one mixture {structure.depth} times over" + ", a router each" * structure.pass_routers
            if structure.tied
            else f"{structure.depth} mixtures"
        )
        made = f"{how}, of {structure.experts} experts{slots} with {structure.hidden} hidden units"
        if structure.heads is not None:
            made += f", attention of {structure.heads} heads before each"
        ends = ends_words(structure.input_blocks, structure.output_blocks)
        return [f"{_NAMES[structure.style]} of width {structure.width}: {made}; {ends}."]

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> MixtureStack:
        """See ``NetworkSpec`` and ``mixture_model.MixtureStack``."""
        from evodevo.networks.mixtures.mixture_model import MixtureStack

        return MixtureStack(self.structure, inputs, outputs)
