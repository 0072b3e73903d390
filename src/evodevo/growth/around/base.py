"""The table of edits around the modules: one row is one way to change what is made of their outputs.

To add one, write a torch-free file ::

    class Wider(AroundEdit):
        name, done, letter = "widen_readout", "given a wider layer before the heads", "W"

        def changed(self, structure, settings): ...  # the structure afterwards, or UsageError with the reason

        def apply(self, network, settings, seed): ...  # the same to the built network, without a change of its outputs

and add ``"widen_readout": "package.module:Wider"`` to ``AROUND``, or to the entry points ``evodevo.around`` of a
package. From then on ``allow`` accepts the name; rules, strategists, log, replay, reports and drawings ask the row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.tables.row import EditRow
from evodevo.networks.canvas import NamedInput
from evodevo.registry import Registry, table

AROUND: Registry[type[AroundEdit]] = table("edit around the modules", "evodevo.around")
"""Operation -> its class."""


class AroundEdit(EditRow):
    """One row: how a network changes around its modules, which stay as they are. No output changes at first."""

    @abstractmethod
    def changed(self, structure: Any, settings: AroundSettings) -> Any:
        """The structure of a zoo afterwards.

        Raises:
            UsageError: The structure does not admit the edit; the message says why.
        """

    def misfit(self, structure: Any, inputs: Sequence[NamedInput]) -> str | None:
        """Why the edit has no place in a zoo of these inputs; None where it has."""
        return None

    @abstractmethod
    def apply(self, network: Any, settings: AroundSettings, seed: int) -> None:
        """Change the built zoo to that structure, in place; what is new is drawn from the seed."""


AROUND.add("map_positions", "evodevo.growth.around.positions:MapPositions")
AROUND.add("add_readout", "evodevo.growth.around.readout:AddReadout")
