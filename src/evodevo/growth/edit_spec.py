"""What happened to a zoo, as plain data, so that the log and the named blobs rebuild it bit for bit.

Source: docs/spec/architect_thyself.md#edit-log.

Legend: N modules.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.growth.spec import Operation
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.settings import Settings


class Action(Settings):
    """What a strategist wants.

    Attributes:
        operation: of ``OPERATIONS``.
        modules: who it is about, in order: the one to prune, grow from or warm again; both parents of a hybrid.
        archetype: of ``spawn``.
        mix: lambda of eqs. 13, 77 in (0, 1).
        scale: factor of sigma_theta.
    """

    operation: Operation
    modules: tuple[str, ...] = ()
    archetype: str | None = None
    mix: float = Field(default=0.5, ge=0, le=1)
    scale: float = Field(default=1.0, ge=0, le=10)


class TensorSource(Settings):
    """Where a tensor of a newborn came from.

    Attributes:
        tensor: its name in the newborn.
        rule: ``fresh`` (drawn from the newborn's seed), ``copied``, ``padded`` (overlap copied, the rest silent),
            ``blended`` (75, 78), ``bank``.
        parent: whose tensor it was; None for ``fresh``.
        source: its name there.
        digest: of the blob that held the parent's weights at that moment.
    """

    tensor: str
    rule: Literal["fresh", "copied", "padded", "blended", "bank"]
    parent: str | None = None
    source: str | None = None
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class Edit(Settings):
    """One structural change.

    Attributes:
        event: number of the event, from 1.
        order: of the sub-action in it, from 0.
        action: what was wanted.
        seed: 64 bits, from which everything that was drawn came.
        module: id of the newborn, or of the module that went.
        before: genotypes of those it is about, by id.
        after: genotype of the newborn; None where none was born.
        tensors: of the newborn.
        twin: the newborn answers as its parent does, and shares its weight until it stands for itself (``split``).
        note: for people ("kept from the bank", "refused: over the cap of parameters").
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
