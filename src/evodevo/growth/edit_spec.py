"""Structural edits as plain data, so that the log and the blobs that it names rebuild a network bit for bit.

Source: docs/spec/architect_thyself.md#edit-log.

Legend: N modules.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.in_place.spec import InPlaceSettings
from evodevo.growth.spec import REPLACE, Operation
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.settings import Settings

NETWORK = "network"
"""In place of a module's id: the edit is one of the network around its modules."""


class Action(Settings):
    """One action of a strategist.

    Attributes:
        operation: Name of the operation, one of ``OPERATIONS``, ``REPLACE``, or of a table, ``in_place.base.EDITS`` or
            ``around.base.AROUND``.
        modules: Ids of the modules concerned, in order: the one to prune, replace, grow from or warm again; both
            parents of a hybrid.
        archetype: Family of the new module of a ``spawn`` or a ``replace``.
        mix: Mixing weight lambda of eqs. 13 and 77, 0 to 1.
        scale: Factor of the mutation strength sigma_theta, 0 to 10.
    """

    operation: Operation
    modules: tuple[str, ...] = ()
    archetype: str | None = None
    mix: float = Field(default=0.5, ge=0, le=1)
    scale: float = Field(default=1.0, ge=0, le=10)

    @property
    def words(self) -> str:
        """``grow mlp-1``, ``spawn lstm``, ``noop``."""
        return " ".join([self.operation, *self.modules, *([self.archetype] if self.archetype else [])])


class TensorSource(Settings):
    """Origin of one tensor of a newborn.

    Attributes:
        tensor: Name of the tensor in the newborn.
        rule: ``fresh`` (drawn from the newborn's seed), ``copied``, ``padded`` (overlap copied, the rest inert),
            ``blended`` (75, 78), ``twinned`` (new units copied from old ones, which share what is read of them),
            ``bank``.
        parent: Id of the module that it came from; None for ``fresh``.
        source: Name of the tensor in that module.
        digest: SHA-256 of the blob with the parent's weights at that time.
    """

    tensor: str
    rule: Literal["fresh", "copied", "padded", "blended", "twinned", "bank"]
    parent: str | None = None
    source: str | None = None
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class Edit(Settings):
    """One structural change.

    Attributes:
        event: Number of the event, from 1.
        order: Index of the sub-action in the event, from 0.
        action: The action as it was requested.
        seed: 64-bit seed from which everything that was drawn for this edit came.
        module: Id of the newborn, of the module that was removed or edited, or ``NETWORK``; None where the action was
            refused.
        before: Genotypes of the modules concerned, by id.
        after: Genotype of the newborn, or of a module that was edited in place; None where there is none.
        tensors: Origins of its tensors.
        in_place: Settings of an edit in place; None for other edits.
        around: Settings of an edit around the modules; None for other edits.
        weights: SHA-256 of the safetensors file with the weights right after an edit in place.
        twin: Whether the newborn computes what its parent does and shares its router weight at first (``split``).
        note: Remark for people ("kept from the bank", "refused: over the cap of parameters").
    """

    event: int = Field(ge=1)
    order: int = Field(default=0, ge=0)
    action: Action
    seed: int = Field(ge=0, lt=1 << 64)
    module: str | None = None
    before: dict[str, ModuleGenotype] = Field(default_factory=dict)
    after: ModuleGenotype | None = None
    tensors: tuple[TensorSource, ...] = ()
    twin: bool = False
    note: str = ""
    in_place: InPlaceSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    around: AroundSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    weights: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", exclude_if=lambda value: value is None)

    @property
    def born(self) -> bool:
        """Whether a module was born."""
        return self.module is not None and self.after is not None and self.in_place is None

    @property
    def warms(self) -> bool:
        """Whether a module was born whose weight rises little by little; one that replaces another has it at once."""
        return self.born and self.action.operation != REPLACE

    @property
    def parents(self) -> tuple[str, ...]:
        """Ids of the modules that a newborn comes from: none of one that takes the place of another."""
        return () if self.action.operation == REPLACE else self.action.modules

    @property
    def enlarged(self) -> bool:
        """Whether a module was edited in place."""
        return self.module is not None and self.in_place is not None

    @property
    def surrounds(self) -> bool:
        """Whether the network was edited around its modules."""
        return self.module is not None and self.around is not None
