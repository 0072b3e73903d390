"""The backbone as a row of the table of networks: what it costs, how it is drawn, built and recalled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.draw import drawn, words
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import UsageError
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.networks.cost import check_pass, positions
from evodevo.networks.spec import NetworkSpec
from evodevo.operators.cost import Cost, Mode
from evodevo.settings import Settings, validate
from evodevo.tasks.text.language import windows_of

if TYPE_CHECKING:
    from evodevo.backbone.model import Backbone
    from evodevo.operators.source.sheet import Program
    from evodevo.tasks.base import OutputSpec
    from evodevo.tasks.inputs import InputSpec


class _Ends(Settings):
    """The checkpoint's facts about a backbone beside its LIVs."""

    vocabulary: int = Field(ge=2, le=1 << 24)
    tied: bool = False


class BackboneNetwork(NetworkSpec):
    """A backbone."""

    kind: Literal["backbone"] = "backbone"
    structure: BackboneStructure = BackboneStructure()

    @classmethod
    def of(cls, space: BackboneSpace, genome: BackboneGenome, *, tied: bool = False) -> BackboneNetwork:
        """The network of a genome.

        Raises:
            GenomeError: The genome is not of the space.
        """
        space.check(genome)
        return cls(structure=BackboneStructure(space=space.settings, genome=space.print(genome), tied=tied))

    @classmethod
    def recall(
        cls, genome: dict[str, Any], read: Mapping[str, Any]
    ) -> tuple[BackboneNetwork, tuple[InputSpec, ...], tuple[OutputSpec, ...]]:
        """See ``NetworkSpec``."""
        space = BackboneSpace(validate(BackboneSettings, read["space"], what="the model's space"))
        ends = validate(_Ends, read["model"], what="the model's settings")
        network = cls.of(space, space.from_json(genome), tied=ends.tied)
        return network, *windows_of(ends.vocabulary, int(read["context_length"]))

    def cost(
        self,
        *,
        inputs: Sequence[NamedInput] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """See ``NetworkSpec`` and ``backbone_cost``."""
        check_pass(batch, mode)
        return backbone_cost(
            self.structure.plans(),
            self.structure.space.dimensions,
            length=positions(sum(text.length for text in inputs) if inputs else None, length),
            batch=batch,
            mode=mode,
            convention="actual",
            vocabulary=sum(output.size for output in outputs),
            tied=self.structure.tied,
        )

    def describe(self) -> list[str]:
        """See ``NetworkSpec``."""
        return words(self.structure.plans())

    def draw(
        self, *, title: str, subtitle: str = "", group: str = "", facts: Mapping[str, Any] | None = None
    ) -> str | None:
        """See ``NetworkSpec``."""
        space, genome = self.structure.parse()
        return drawn(space.plan(genome), genome).svg(title=title, subtitle=group or subtitle)

    def build(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> Backbone:
        """See ``NetworkSpec`` and ``backbone.model.Backbone``."""
        from evodevo.backbone.model import Backbone

        text = inputs[0] if inputs else None
        if (
            text is None
            or [spec.modality for spec in inputs] != ["tokens"]
            or [(spec.kind, spec.size) for spec in outputs] != [("tokens", text.vocabulary)]
        ):
            raise UsageError(
                "a backbone reads one text and predicts its next tokens; give a task of next tokens, such as language."
            )
        return Backbone(self.structure, inputs, outputs)

    @classmethod
    def source(cls, network: Any) -> Program:
        """See ``NetworkSpec``."""
        from evodevo.backbone.source.program import backbone_program

        return backbone_program(network)
