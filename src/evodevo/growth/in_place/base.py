"""The table of edits in place: one row is one way to change a module where it is, under its id.

To add one, write a torch-free file ::

    class LargerKernel(InPlaceEdit):
        name, done, letter = "enlarge_kernel", "given larger kernels", "K"

        def child(self, genotype, settings): ...  # the genotype afterwards, or UsageError with the reason

and add ``"enlarge_kernel": "package.module:LargerKernel"`` to ``EDITS``, or to the entry points ``evodevo.edits`` of a
package. From then on ``allow`` accepts the name; rules, strategists, log, replay, reports and drawings ask the row. The
weights follow from both genotypes (``growth/zoo/birth``), and an edit after which the module would answer otherwise is
refused.
"""

from __future__ import annotations

from abc import abstractmethod

from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.growth.tables.row import EditRow
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.registry import Registry, table

EDITS: Registry[type[InPlaceEdit]] = table("edit in place", "evodevo.edits")
"""Operation -> its class."""


class InPlaceEdit(EditRow):
    """One row: how the genotype of a module changes. The id, the router's weights and all statistics stay."""

    @abstractmethod
    def child(self, genotype: ModuleGenotype, settings: InPlaceSettings) -> ModuleGenotype:
        """The genotype afterwards; deterministic, and of the same width.

        Raises:
            UsageError: The module does not admit the edit; the message says why.
        """

    def nodes(self, child: ModuleGenotype, parent: ModuleGenotype) -> dict[str, str]:
        """Node of the new graph -> node of the old one whose weights it takes: those of one id and kind."""
        kinds = {node.id: node.type for node in parent.graph.nodes}
        return {node.id: node.id for node in child.graph.nodes if kinds.get(node.id) == node.type}


EDITS.add("widen", "evodevo.growth.in_place.widen:Widen")
EDITS.add("deepen", "evodevo.growth.in_place.deepen:Deepen")
