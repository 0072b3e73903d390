"""The hidden layers of an H-Model as a pool of modules, so that it can grow by the same edits as a zoo.

A layer of kind ``genotype`` is its module. Every other layer is a module of one opaque node in the pool, with an id
of its kind and first index ("transformer-0"): it can be removed, and it cannot be a parent.
"""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.errors import UsageError
from evodevo.h_model.cost import h_model_cost
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.nodes.layer import LayerNode
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGenotype, ModuleGraph, ZooModule
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.operators.cost import Cost
from evodevo.operators.layers.base import LayerSpec
from evodevo.settings import Settings

OPAQUE = "layer"
"""Archetype of a layer that is no module, and the id of its only node."""


class HModelPool(Settings):
    """An H-Model whose hidden layers have ids.

    Attributes:
        model: H-Model structure; everything but its hidden layers is read here.
        modules: Hidden layers as modules, in order.
        disabled: Ids of disabled layers, which no other layer reads.
    """

    model: HModelStructure
    modules: tuple[ZooModule, ...]
    disabled: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Width d."""
        return self.model.width

    @property
    def live(self) -> tuple[ZooModule, ...]:
        """The enabled layers."""
        return tuple(module for module in self.modules if module.id not in self.disabled)

    @property
    def structure(self) -> HModelStructure:
        """The H-Model with these layers.

        Top-k and top-m are no larger than it allows.
        """
        count = len(self.modules)
        mode = self.model.inference
        mode = mode.model_copy(update={"m": min(mode.m, count), "k": min(mode.k, count + 1)})
        places = tuple(place for place, module in enumerate(self.modules) if module.id in self.disabled)
        hidden = tuple(layer_of(module) for module in self.modules)
        return self.model.model_copy(update={"hidden": hidden, "disabled": places, "inference": mode})

    def cost(self, inputs: Sequence[InputSizes], outputs: Sequence[OutputSizes]) -> Cost:
        """Cost of one pass of the whole model on one sample in which all layers run."""
        return h_model_cost(self.structure, inputs=inputs, outputs=outputs)

    @property
    def opaque(self) -> dict[str, str]:
        """Reason by id why a layer cannot be a parent."""
        return {
            module.id: f"{module.id} is a layer of kind {layer_of(module).kind!r} and no module: nothing is born of it"
            for module in self.modules
            if module.genotype.archetype == OPAQUE
        }

    def misfit(self, genotype: ModuleGenotype) -> str | None:
        """Why a child cannot be a hidden layer of this model; None where it can."""
        layer = GenotypeLayer(module=ZooModule(id="child", genotype=genotype))
        try:
            layer.checked(self.width, self.model.causal)
        except UsageError as error:
            return str(error)
        return None


PoolStructure = ZooStructure | HModelPool
"""A structure whose modules can be born and removed."""


def pool_of(structure: HModelStructure) -> HModelPool:
    """The pool of a model that has not grown yet.

    Raises:
        UsageError: Two layers have one id, or the layers have a window.
    """
    if structure.window is not None:
        raise UsageError(
            "an H-Model with a window cannot grow: with every layer that comes or goes the neighbours of others would "
            "change. Leave router windows out."
        )
    named = [layer.zoo_module.id for layer in structure.hidden if layer.zoo_module is not None]
    for name in named:
        if named.count(name) > 1:
            raise UsageError(f"{named.count(name)} hidden layers have the id {name!r}; each needs its own to grow.")
    modules: list[ZooModule] = []
    for place, layer in enumerate(structure.hidden):
        taken = {*named, *(module.id for module in modules)}
        modules.append(module_of(layer, _free(f"{layer.kind}-", place, taken), structure.width))
    ids = [module.id for module in modules]
    return HModelPool(
        model=structure, modules=tuple(modules), disabled=tuple(ids[place] for place in structure.disabled)
    )


def _free(kind: str, place: int, taken: set[str]) -> str:
    """The first free id of that kind, counted from the layer's index."""
    while f"{kind}{place}" in taken:
        place += 1
    return f"{kind}{place}"


def module_of(layer: LayerSpec, name: str, width: int) -> ZooModule:
    """A hidden layer as a module, with that id where it has none; with adapters or a router of its own it is opaque."""
    own: ZooModule | None = layer.zoo_module
    if own is not None and layer.width is None and layer.router is None:
        return own
    graph = ModuleGraph(nodes=(LayerNode(id=OPAQUE, layer=layer),), edges=((INPUT, OPAQUE), (OPAQUE, OUTPUT)))
    return ZooModule(id=name, genotype=ModuleGenotype(archetype=OPAQUE, width=width, graph=graph))


def layer_of(module: ZooModule) -> LayerSpec:
    """The hidden layer of a module."""
    genotype = module.genotype
    if genotype.archetype == OPAQUE:
        (node,) = genotype.graph.nodes
        assert node.held_layer is not None, "made by module_of"
        return node.held_layer
    return GenotypeLayer(module=module)
