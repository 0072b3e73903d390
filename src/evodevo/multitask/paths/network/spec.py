"""A network of the library as a path: its description, its inputs, and its parts, as plain data.

A model that ``evolve`` found, one that ``grow`` grew, an H-Model or a language model keep their parts in a checkpoint;
each part becomes a component of a multitask system, and the pooled result of ``represent`` is the input of a head or a
connector (docs/spec/munet.md#tasks).
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import ComponentStructure
from evodevo.networks.spec import NETWORKS, NetworkEnvelope, NetworkSpec
from evodevo.settings import Settings, validate
from evodevo.tasks.base import OutputSpec

KIND = "network_path"
NORM, HEAD = "head_norm", "head"
"""Roles of what a task adds to a network: a norm of what it represents, and the head behind it."""
LOOSE = "."
"""The part of a checkpoint that holds tensors of the model itself; as a role it is called ``tensors``."""


class NetworkInput(Settings):
    """One input of a network.

    Attributes:
        name: name in the network.
        modality: modality of the input.
        length, vocabulary, height, width, channels, size: see ``tasks.inputs.InputSpec``.
        tokenizer: for tokens "bytes", or the digest of the tokenizer whose ids these are.
        use: an ``optional`` input is replaced by a learned token where it is missing; an ``unread`` one is never read.
    """

    name: str = Field(min_length=1, max_length=200)
    modality: Literal["tokens", "image", "vector", "features"]
    length: int = Field(default=0, ge=0)
    vocabulary: int = Field(default=0, ge=0)
    height: int = Field(default=0, ge=0)
    width: int = Field(default=0, ge=0)
    channels: int = Field(default=0, ge=0)
    size: int = Field(default=0, ge=0)
    tokenizer: str = ""
    use: Literal["needed", "optional", "unread"] = "needed"

    @property
    def asks(self) -> str:
        """The modality that a task must hand out for this input, in the form of ``AgentSettings.modalities``.

        Images of any size and text of any length can be read; vectors and features only where they are as wide.
        """
        if self.modality == "image":
            return "image"
        return f"{self.modality}:{self.tokenizer if self.modality == 'tokens' else self.size}"


class NetworkOutput(Settings):
    """One answer that a network was trained to give; see ``tasks.base.OutputSpec``."""

    name: str
    kind: Literal["class", "labels", "tokens"]
    size: int = Field(ge=0)
    names: tuple[str, ...] = ()
    of: str = ""


class NetworkPart(Settings):
    """One part of a checkpoint.

    Attributes:
        role: role of its component.
        name: name in the checkpoint ("core", "blocks.3"); ``.`` are the parameters of the model itself.
        parameters: number of trainable parameters.
    """

    role: str = Field(min_length=1, max_length=100)
    name: str = Field(min_length=1)
    parameters: int = Field(ge=0)


class Newborns(Settings):
    """The newborn modules of a network that was growing: without them the network would give all modules full weight.

    Attributes:
        births: newborn -> its birth factor.
        twins: newborn -> the module whose weight it shares.
        beside: whether newborns are added beside the gate of the others.
    """

    births: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    twins: dict[str, str] = Field(default_factory=dict)
    beside: bool = Field(default=False, exclude_if=lambda value: not value)


class NetworkStructure(ComponentStructure):
    """A path of kind ``network_path``.

    Attributes:
        source: "network": ``genome`` holds a ``NetworkEnvelope``; "backbone": the envelope of a backbone.
        genome: genome of the network.
        model: for a backbone, its ``space`` and ``model`` settings, as its checkpoint has them.
        inputs, outputs: inputs and outputs of the network.
        newborns: newborn modules of one that was growing.
        parts: all parts that ``represent`` uses, in order.
        width: number of channels of a sample's representation.
        classes: number of classes of the path's head; 0 is headless, and the answer is the representation.
        norm_epsilon: epsilon of the norm before the head.
        adapters: none; such a path has no place for them.
    """

    source: Literal["network", "backbone"] = "network"
    genome: dict[str, Any]
    model: dict[str, Any] = Field(default_factory=dict)
    inputs: tuple[NetworkInput, ...] = Field(min_length=1)
    outputs: tuple[NetworkOutput, ...] = ()
    newborns: Newborns = Newborns()
    parts: tuple[NetworkPart, ...] = Field(min_length=1)
    width: int = Field(ge=1, le=1 << 20)
    classes: int = Field(default=0, ge=0, le=1 << 24)
    norm_epsilon: float = Field(default=1e-6, gt=0, le=1e-2)
    adapters: dict[str, int] = Field(default_factory=dict, max_length=0)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        roles = [*(part.role for part in self.parts), NORM, HEAD]
        if len(set(roles)) != len(roles):
            raise ValueError(f"each part has a role of its own, and none is called {NORM!r} or {HEAD!r}")
        asks = [spec.asks for spec in self.read]
        if len(set(asks)) != len(asks):
            raise ValueError("a network that reads several inputs of one kind cannot tell which is which elsewhere")
        if not asks:
            raise ValueError("the network reads nothing")
        return self

    def network(self) -> tuple[NetworkSpec, tuple[OutputSpec, ...]]:
        """The network, and what it answers.

        Raises:
            UsageError: no network of this library.
        """
        if self.source == "network":
            envelope = validate(NetworkEnvelope, self.genome, what="an imported network")
            return envelope.network, tuple(OutputSpec(**values.model_dump()) for values in self.outputs)
        read = {**self.model, "context_length": self.inputs[0].length}
        network, _, outputs = NETWORKS.get(self.genome["space"]).recall(self.genome, read)
        return network, outputs

    @property
    def read(self) -> tuple[NetworkInput, ...]:
        """The inputs that are read."""
        return tuple(spec for spec in self.inputs if spec.use != "unread")

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the components, in the order in which a sample passes them."""
        return (*(part.role for part in self.parts), *((NORM, HEAD) if self.classes else ()))

    @property
    def input_spec(self) -> dict[str, Any]:
        """Preparation of a task's samples for the network; see ``multitask/paths/network/reading.py``."""
        return {"inputs": [spec.model_dump(mode="json") for spec in self.inputs], "resize": "bilinear", "as": "uint8"}

    def part(self, role: str) -> NetworkPart | None:
        """The part of a role; None of the norm and the head."""
        return next((part for part in self.parts if part.role == role), None)

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: a part fits into an equal network at its own place.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"this network has no component {role!r}; it has {list(self.roles)}.")
        if role == HEAD:
            return {"width": self.width, "classes": self.classes}
        if role == NORM:
            return {"width": self.width, "epsilon": self.norm_epsilon}
        return {"network": self._identity, "part": role}

    @cached_property
    def _identity(self) -> str:
        own = ("source", "genome", "model", "inputs", "outputs", "newborns")
        plain = self.model_dump(mode="json")
        return canonical.digest({key: plain[key] for key in own})


def role_of(part: str) -> str:
    """The role of a part of a checkpoint."""
    if part == LOOSE:
        return "tensors"
    return f"own_{part}" if part in (NORM, HEAD) else part
