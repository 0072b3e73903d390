"""Any network of separate samples as plain data: an H-Model, a zoo of modules, or one of their opponents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.spec import ZooStructure
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import Settings


class StackStructure(Settings):
    """Layers one after the other, the same inputs and outputs as an H-Model's around them.

    A transformer of n layers; with ``repeats`` above 1 the layers are tied over time (Universal Transformer, Dehghani
    et al. 2019), with ``iteration_embedding`` telling which repeat it is.

    Attributes:
        width: channels d.
        layers: in order; none is allowed.
        repeats: how often the whole stack is run.
        residual: false takes the blocks' own residual connections away.
        others: as in ``HModelStructure``.
    """

    width: int = Field(default=64, ge=4, le=65536)
    layers: tuple[Layer, ...] = Field(default=(TransformerLayer(),) * 4, max_length=1024)
    repeats: int = Field(default=1, ge=1, le=256)
    causal: bool = False
    residual: bool = True
    iteration_embedding: bool = False
    input_blocks: int = Field(default=1, ge=0, le=16)
    output_blocks: int = Field(default=1, ge=0, le=16)
    canvas: Literal["segments", "latents", "pad"] = "segments"
    slots: int = Field(default=16, ge=1, le=4096)
    missing: bool = False


class HModelNetwork(Settings):
    """An H-Model."""

    kind: Literal["h_model"] = "h_model"
    structure: HModelStructure = HModelStructure()


class StackNetwork(Settings):
    """A stack."""

    kind: Literal["stack"] = "stack"
    structure: StackStructure = StackStructure()


class EnsembleStructure(Settings):
    """Stacks that answer together: each reads the inputs for itself, and their logits are averaged.

    Attributes:
        members: of any widths.
    """

    members: tuple[StackStructure, ...] = Field(default=(StackStructure(),) * 2, min_length=1, max_length=64)


class EnsembleNetwork(Settings):
    """An ensemble."""

    kind: Literal["ensemble"] = "ensemble"
    structure: EnsembleStructure = EnsembleStructure()


class ModuleZooNetwork(Settings):
    """A zoo of modules."""

    kind: Literal["module_zoo"] = "module_zoo"
    structure: ZooStructure = ZooStructure()


class ModuleEnsembleNetwork(Settings):
    """The mean of the logits of networks, one for each module of a zoo, each trained as if it were alone."""

    kind: Literal["module_ensemble"] = "module_ensemble"
    structure: ZooStructure = ZooStructure()


class BaselineNetwork(Settings):
    """An opponent of a zoo."""

    kind: Literal["baseline"] = "baseline"
    structure: BaselineStructure = BaselineStructure()


NetworkSpec = Annotated[
    HModelNetwork | StackNetwork | EnsembleNetwork | ModuleZooNetwork | ModuleEnsembleNetwork | BaselineNetwork,
    Field(discriminator="kind"),
]


class NetworkEnvelope(Settings):
    """Room for one network, for files and messages."""

    network: NetworkSpec


def parameter_matched(structure: HModelStructure) -> StackStructure:
    """The transformer Tr(I + H + O): each layer of the H-Model once (docs/spec/h_model.md#fair-comparison)."""
    return _stack(structure, structure.hidden)


def compute_matched(structure: HModelStructure) -> StackStructure:
    """The transformer Tr(I + H T + O): as many layers as the H-Model runs in one pass."""
    return _stack(structure, structure.hidden * structure.iterations)


def universal(structure: HModelStructure) -> StackStructure:
    """The weight-tied stack: the H-Model's layers in order, T times."""
    if structure.iterations == 0:
        return _stack(structure, ())
    tied = {"repeats": structure.iterations, "iteration_embedding": True}
    return _stack(structure, structure.hidden).model_copy(update=tied)


def _stack(structure: HModelStructure, layers: tuple[Layer, ...]) -> StackStructure:
    return StackStructure(
        width=structure.width,
        layers=layers,
        causal=structure.causal,
        input_blocks=structure.input_blocks,
        output_blocks=structure.output_blocks,
        canvas=structure.canvas,
        slots=structure.slots,
        missing=structure.missing,
    )
