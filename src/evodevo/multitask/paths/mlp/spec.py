"""A residual multilayer perceptron as a row of components: the structure of the path, as plain data, and its cost.

Pre-norm residual blocks of two linear maps (Gorishniy et al. 2021, 2106.11959, the ResNet there) with layer norm (Ba et
al. 2016, 1607.06450) instead of batch norm: nothing is remembered of other samples, so that a frozen path answers each
sample alone. The first component belongs to the columns of one table, since numbers of different tables mean different
things; what comes behind it fits any table. ``multitask/paths/mlp/model.py`` builds exactly the parameters that are
stated here; tests recount them, and the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import BLOCK_WIDTH, NUM_LAYERS
from evodevo.multitask.paths.blocks_spec import BLOCK, EMBEDDING, HEAD, NORM, ComponentStructure
from evodevo.operators.cost import Work

KIND = "mlp_path"
HYPERPARAMETERS: Mapping[str, str] = {NUM_LAYERS: "layers", BLOCK_WIDTH: "inner"}
"""Hyperparameter of a path -> the field of its structure that it decides."""


class MLPStructure(ComponentStructure):
    """A path of kind ``mlp_path``.

    Attributes:
        width: numbers between blocks, and of a representation.
        layers: blocks that a sample passes.
        inner: numbers inside of a block, as a multiple of ``width``.
        inputs: numbers of a sample; 0 has no embedding and reads nothing: others begin with its blocks.
        indicated: so many of these numbers, the first ones, may be missing: as many indicators follow them.
        columns: digest over what the numbers mean; empty where nobody has said it.
        classes: classes of the head; 0 is headless, and the answer is the representation.
        norm_epsilon: epsilon of every norm.
    """

    width: int = Field(ge=1, le=65536)
    layers: int = Field(ge=0, le=1024)
    inner: float = Field(default=1.0, gt=0, le=16)
    inputs: int = Field(default=0, ge=0, le=1 << 24)
    indicated: int = Field(default=0, ge=0, le=1 << 23)
    columns: str = Field(default="", pattern=r"^(|[0-9a-f]{64})$")
    classes: int = Field(default=0, ge=0, le=1 << 24)
    norm_epsilon: float = Field(default=1e-5, gt=0, le=1e-2)

    @model_validator(mode="after")
    def _indicators_are_inputs(self) -> Self:
        if 2 * self.indicated > self.inputs:
            raise ValueError(f"{self.inputs} inputs do not hold {self.indicated} numbers and an indicator of each")
        return self

    @property
    def hidden(self) -> int:
        """Numbers inside of a block."""
        return max(1, round(self.width * self.inner))

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the components, in the order in which a sample passes them."""
        inside = [f"{BLOCK}{number}" for number in range(self.layers)]
        return (*([EMBEDDING] if self.inputs else []), *inside, NORM, *([HEAD] if self.classes else []))

    @property
    def input_spec(self) -> dict[str, Any]:
        """Preparation of a task's samples; part of a path's identity. The statistics lie with the embedding."""
        return {"modality": "vector", "size": self.inputs, "indicated": self.indicated, "scale": "standard"}

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: it fits where it had an equal signature.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"a path of {self.layers} layers has no component {role!r}; it has {list(self.roles)}.")
        if role == EMBEDDING:
            return {
                "width": self.width,
                "inputs": self.inputs,
                "indicated": self.indicated,
                "columns": self.columns,
            }
        if role == HEAD:
            return {"width": self.width, "classes": self.classes}
        norm = {"width": self.width, "epsilon": self.norm_epsilon}
        return norm if role == NORM else {"hidden": self.hidden, **norm}


PRESETS: Mapping[str, MLPStructure] = {
    "tiny": MLPStructure(width=32, layers=2),
    "small": MLPStructure(width=128, layers=2),
    "base": MLPStructure(width=384, layers=3),
}
"""Name -> a structure without head and embedding: about 4,000, 67,000 and 900,000 parameters."""


def role_parameters(structure: MLPStructure) -> dict[str, int]:
    """Role -> parameters of its component; the statistics of the embedding are none."""
    width, hidden = structure.width, structure.hidden
    whole = {
        EMBEDDING: (structure.inputs + 1) * width,
        NORM: 2 * width,
        HEAD: (width + 1) * structure.classes,
    }
    block = 2 * width + (width + 1) * hidden + (hidden + 1) * width
    return {role: whole.get(role, block) for role in structure.roles}


def path_work(structure: MLPStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them (a multiply-add counts two)."""
    products = structure.inputs + structure.layers * 2 * structure.hidden + structure.classes
    return Work(2 * structure.width * products)
