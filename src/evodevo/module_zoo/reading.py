"""What a zoo and its opponents have in common as rows of the table of networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from evodevo.networks.spec import NetworkSpec
from evodevo.networks.towers.files import frozen_towers, settled
from evodevo.networks.towers.spec import ExtractorStructure

if TYPE_CHECKING:
    from evodevo.tasks.inputs import InputSpec


class ReadingNetwork(NetworkSpec):
    """A network whose structure names an extractor for each input, which may be a pretrained tower."""

    def towers(self, inputs: Sequence[InputSpec]) -> dict[str, ExtractorStructure]:
        """See ``NetworkSpec``."""
        return frozen_towers(self.structure, inputs)

    def settled(self) -> Self:
        """See ``NetworkSpec``."""
        return self.model_copy(update={"structure": settled(self.structure)})
