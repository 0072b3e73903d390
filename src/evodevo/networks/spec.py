"""Any network of separate samples as plain data: one row of the table for each kind.

To add a kind, write one file without torch in it: the settings of its structure, and a row ::

    class MyNetwork(NetworkSpec):
        kind: Literal["mine"] = "mine"
        structure: MyStructure = MyStructure()

        def cost(self, *, inputs=(), outputs=(), length=None, batch=1, mode="prefill"): ...
        def describe(self): ...
        def build(self, inputs, outputs): ...  # imports the model, which is a ``networks.base.Network``

and add ``"mine": "package.module:MyNetwork"`` to ``NETWORKS``, or to the entry points ``evodevo.networks`` of a
package. Settings, costs, drawings, training, growth and checkpoints find the row by its kind.
``testing.network_suite`` has the laws that a network must keep.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic_core import core_schema

from evodevo.errors import UsageError
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.operators.cost import Cost, Mode
from evodevo.registry import Registry, table
from evodevo.settings import RowOf, Settings

if TYPE_CHECKING:
    from evodevo.networks.base import Network
    from evodevo.networks.towers.spec import ExtractorStructure
    from evodevo.operators.layers.base import Layer
    from evodevo.operators.source.sheet import Program, RepresentationSource, SourceSheet
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec

NETWORKS: Registry[type[NetworkSpec]] = table("network", "evodevo.networks")
NETWORKS.add("stack", "evodevo.networks.stacks.stack:StackNetwork")
NETWORKS.add("ensemble", "evodevo.networks.stacks.ensemble:EnsembleNetwork")
NETWORKS.add("mixture", "evodevo.networks.mixtures.mixture:MixtureNetwork")
NETWORKS.add("hyper_connections", "evodevo.networks.stacks.hyper_connections:HyperConnectionsNetwork")
NETWORKS.add("recursion", "evodevo.networks.stacks.recursion:RecursionNetwork")
_ANY_ROW = RowOf(NETWORKS)


class NetworkSpec(Settings):
    """One kind of network; as the type of a field, any row of ``NETWORKS``.

    Attributes:
        kind: name of the row.
        structure: everything but inputs and outputs, which follow from the task.
    """

    kind: str
    structure: Any

    structure_cost: ClassVar[Callable[..., Cost]]
    """The cost of a structure, with the arguments of ``cost``; a row whose cost is otherwise overrides ``cost``."""

    def cost(
        self,
        *,
        inputs: Sequence[NamedInput] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """Cost of one pass over samples that fill all their positions.

        Args:
            inputs, outputs: inputs and outputs of the task; left out, the cost covers the layers between them only.
            length: positions, where there are no inputs.
            batch: samples.
            mode: ``prefill``, or ``train`` (three times the FLOPs); a whole pass in both.

        Raises:
            UsageError: neither inputs nor length, or both; a batch out of range; mode ``decode``.
        """
        cost = type(self).structure_cost
        return cost(self.structure, inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)

    @abstractmethod
    def describe(self) -> list[str]:
        """The network in sentences."""

    @abstractmethod
    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> Network:
        """The model, with parameters from the global random stream; see ``networks.build.build_network``.

        Raises:
            UsageError: the structure cannot serve this task.
        """

    @classmethod
    def source(cls, network: Any) -> Program:
        """A network of this kind as one file of plain PyTorch.

        Args:
            network: What ``build`` returned, trained or changed since, in evaluation mode.

        Raises:
            UsageError: The kind has no source, or a part of this network has none; the message says what to do.
        """
        raise UsageError(f"a network of kind {cls.model_fields['kind'].default!r} has no source; take --to pt2.")

    @classmethod
    def represented_source(cls, network: Any, sheet: SourceSheet) -> RepresentationSource:
        """What a network of this kind represents, as a class of a file of plain PyTorch. Its arguments are those of
        ``networks.source.arguments``.

        Args:
            network: What ``build`` returned, trained or changed since, in evaluation mode.
            sheet: The file.

        Raises:
            UsageError: as ``source``.
        """
        raise UsageError(
            f"what a network of kind {cls.model_fields['kind'].default!r} represents has no source; take --to pt2."
        )

    def draw(
        self, *, title: str, subtitle: str = "", group: str = "", facts: Mapping[str, Any] | None = None
    ) -> str | None:
        """The network as SVG; None where this kind has no drawing.

        Args:
            title: above the drawing.
            subtitle: name of the trained configuration, with learning rate and seed.
            group: name of the trained configuration, without them.
            facts: facts of its evaluation, such as ``routing``; None where it was not trained.
        """
        return None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Hidden layers that may be replaced one by one; none where the network is not made of such."""
        return ()

    def with_layers(self, layers: tuple[Layer, ...]) -> Self:
        """The network with other hidden layers, as many as it has.

        Raises:
            UsageError: a network without such layers.
        """
        raise UsageError(f"a network of kind {self.kind!r} has no layers that can be replaced.")

    def towers(self, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
        """Input -> the pretrained tower that reads it and never learns."""
        return {}

    def settled(self) -> Self:
        """The network with paths that are found from any folder, and with digests of the files behind them.

        Raises:
            StoreDamagedError: a file has another digest than is stated.
            NotFoundError, UnsafeFileError: a file is gone, or is a pickle.
        """
        return self

    @classmethod
    def recall(
        cls, genome: dict[str, Any], read: Mapping[str, Any]
    ) -> tuple[NetworkSpec, tuple[InputSpec, ...], tuple[OutputSpec, ...]]:
        """The network of a checkpoint that holds the genome of a search, with its inputs and outputs.

        Args:
            genome: Envelope of a genome of the space of this kind's name.
            read: The checkpoint's facts about the model's input.

        Raises:
            UsageError, LookupError, TypeError, AttributeError, ValueError: No such checkpoint.
        """
        raise UsageError(f"there is no network of the space {genome['space']!r}.")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        if cls.__base__ is not Settings:
            return handler(source)  # type: ignore[no-any-return]
        return _ANY_ROW.__get_pydantic_core_schema__(source, handler)


class NetworkEnvelope(Settings):
    """Room for one network, for files and messages."""

    network: NetworkSpec
