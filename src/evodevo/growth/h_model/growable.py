"""The hidden layers of an H-Model as a pool of modules, so that it can grow by the same edits as a zoo.

A layer of kind ``genotype`` is its module. Every other layer is a module of one opaque node in the pool, with an id
of its kind and first index ("transformer-0"): it can be removed, and it cannot be a parent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from evodevo.errors import UsageError
from evodevo.growth.flops import Prices
from evodevo.growth.growable import OPAQUE, Growable, TaskSizes
from evodevo.growth.spec import FitnessSettings, GrowthSettings
from evodevo.h_model.cost import h_model_cost
from evodevo.h_model.spec import CarriedStructure, HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.nodes.layer import LayerNode
from evodevo.module_zoo.modules.spec import INPUT, OUTPUT, ModuleGenotype, ModuleGraph, ZooModule
from evodevo.operators.cost import Cost
from evodevo.operators.layers.base import LayerSpec

if TYPE_CHECKING:
    from evodevo.growth.h_model.growing import GrowingHModel
    from evodevo.training.surgery import Origins


class GrowableHModel(Growable):
    """An H-Model whose hidden layers have ids.

    Attributes:
        model: H-Model structure; everything but its hidden layers is read here.
    """

    plural = "H-Models"
    role = "h_model"

    model: HModelStructure

    @classmethod
    def of(cls, structure: HModelStructure) -> Self:
        """See ``Growable``: a model that has not grown yet.

        Raises:
            UsageError: Two layers have one id, or the layers have a window or given routes.
        """
        if structure.carried.routes is not None:
            raise UsageError(
                "an H-Model with given routes cannot grow: nothing would lead to a newborn. Leave carried.routes out."
            )
        if structure.own:
            raise UsageError("an H-Model with layers of an output's own cannot grow; grow it before they are added.")
        if structure.window is not None:
            raise UsageError(
                "an H-Model with a window cannot grow: with every layer that comes or goes the neighbours of others "
                "would change. Leave router windows out."
            )
        named = [layer.zoo_module.id for layer in structure.hidden if layer.zoo_module is not None]
        for name in named:
            if named.count(name) > 1:
                raise UsageError(f"{named.count(name)} hidden layers have the id {name!r}; each needs its own to grow.")
        modules: list[ZooModule] = []
        for place, layer in enumerate(structure.hidden):
            taken = {*named, *(module.id for module in modules)}
            modules.append(module_of(layer, _free(f"{layer.kind}-", place, taken), structure.width))
        disabled = tuple(modules[place].id for place in structure.disabled)
        return cls(model=structure, modules=tuple(modules), disabled=disabled)

    def grown(self, network: Any, moved: Callable[[Origins], None]) -> GrowingHModel:
        """See ``Growable``."""
        from evodevo.growth.h_model.growing import GrowingHModel

        return GrowingHModel(network, self, moved)

    @property
    def width(self) -> int:
        """Width d."""
        return self.model.width

    @property
    def structure(self) -> HModelStructure:
        """The H-Model with these layers.

        Top-k, top-m and the numbers of a carried stream are no larger than it allows.
        """
        count = len(self.modules)
        mode = self.model.inference
        mode = mode.model_copy(update={"m": min(mode.m, count), "k": min(mode.k, count + 1)})
        places = tuple(place for place, module in enumerate(self.modules) if module.id in self.disabled)
        hidden = tuple(layer_of(module) for module in self.modules)
        carried = self.model.carried.fitting(count)
        changes = {"hidden": hidden, "disabled": places, "inference": mode, "carried": carried}
        return self.model.model_copy(update=changes)

    def cost(self, task: TaskSizes) -> Cost:
        """See ``Growable``; all layers run, or as many as a carried stream lets run."""
        return h_model_cost(self.structure, inputs=task.inputs, outputs=task.outputs)

    def prices(self, task: TaskSizes, settings: FitnessSettings) -> Prices:
        """See ``Growable``."""
        forward = float(self.cost(task).flops)
        # Without one of N layers N - 1 run, and alone one does: together a pass for each; a layer set to 0 still runs.
        sparse, zeroed, live = self.model.inference.mode != "dense", settings.ablation == "zero", len(self.live)
        if self.model.stream == "carried":
            most = self.model.carried.most
            without = self._running(min(most, live if zeroed else live - 1), task)
            # One pass as it is, one that runs all alike, one without each layer, and each layer alone.
            probe = forward + self._running(live, task) + live * (without + self._running(1, task))
            return Prices(forward, probe, 1.0)
        return Prices(forward, forward * (live + 2 + sparse + zeroed), 1.0)

    def _running(self, layers: int, task: TaskSizes) -> float:
        """FLOPs of a forward pass of a carried stream in which so many layers run."""
        numbers = CarriedStructure(m=1, cap=max(layers, 1))
        structure = self.structure.model_copy(update={"carried": numbers})
        return float(h_model_cost(structure, inputs=task.inputs, outputs=task.outputs).flops)

    def check(self, growth: GrowthSettings) -> None:
        """Refuse a kind of inheritance and a cap that an H-Model does not have; raises UsageError."""
        if growth.birth.inheritance == "split":
            raise UsageError(
                "birth.inheritance is 'split', but connections of an H-Model do not add up to one: a child cannot "
                "share its parent's weight. Take function_preserving, soft or copy_noise."
            )
        if growth.birth.entry != "gate":
            raise UsageError(
                f"birth.entry is {growth.birth.entry!r}, but an H-Model has no gate over its layers to stand beside."
            )
        if growth.caps.measured:
            raise UsageError(
                "caps.latency needs seconds by kind of node, which are measured for zoos only; cap the flops."
            )

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
