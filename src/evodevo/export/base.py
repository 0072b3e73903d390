"""Interface of export formats, the rows of ``EXPORTERS``, and the data of an export.

Legend: B samples, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo.registry import Registry, table

if TYPE_CHECKING:
    from torch import nn

Samples = NDArray[Any]
Logits = NDArray[np.float32]


class SampleInput(ABC):
    """The one input of an exported network: samples as one array (B, …).

    Attributes:
        name: name of the input, in the plural.
        dtype: number format, of numpy and of torch.
        subject: noun for the samples, in the card's first sentence.
        tag: name of the task on the Hugging Face hub.
    """

    name: ClassVar[str]
    dtype: ClassVar[str]
    subject: ClassVar[str]
    tag: ClassVar[str]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The entry of ``spec.json``; None is any number of samples."""

    @abstractmethod
    def probe(self, size: int) -> Samples:
        """A batch for verification, the same everywhere: (size, …)."""

    @abstractmethod
    def words(self) -> str:
        """The sentences of the card that say what the input is."""

    @property
    @abstractmethod
    def example(self) -> str:
        """A line of Python that makes a tensor called ``name``."""

    @abstractmethod
    def files(self, load: str, call: str) -> Sequence[tuple[str, str]]:
        """(heading, Python) of examples that classify files.

        Args:
            load: Python that defines ``spec``, what is called, and what ``function`` writes.
            call: expression of a function from a tensor to logits.
        """

    def function(self, beside: str) -> str:
        """Python of the function ``encoded``, which makes the input of what a user has and which the examples of
        ``files`` call; empty where they need none.

        Args:
            beside: pattern of an expression of the place of a file in the folder of the export.
        """
        return ""

    def beside(self) -> Mapping[str, str]:
        """Files that the function reads: name -> text."""
        return {}


@dataclass(frozen=True)
class Component:
    """A part of an exported network.

    Attributes:
        path: Path to which it belongs, "agent/number".
        role: Role in that path.
        id: Id "agent:number" with the agent that created it.
        digest: SHA-256 of its weights.
        parameters: Number of parameters.
    """

    path: str
    role: str
    id: str
    digest: str
    parameters: int


@dataclass(frozen=True)
class Provenance:
    """Origin of a network, for people and for the manifest.

    Attributes:
        system, agent, task, path: Names.
        kind: Kind of the path.
        validation: Accuracy by which it was chosen, 0 to 1; None where there is none.
        test: Accuracy on data that played no part, 0 to 1; None where it was not measured.
        test_samples: Number of samples of that measurement.
        flops: FLOPs of one sample.
        components: All components, those of paths inside it too.
        ancestors: Paths from which it inherited, nearest first: ("agent/number", what was changed).
        paths: Paths inside a multipath model, the main path first.
        created: Time of its training.
    """

    system: str
    agent: str
    task: str
    path: str
    kind: str
    validation: float | None
    test: float | None
    test_samples: int | None
    flops: float
    components: tuple[Component, ...]
    ancestors: tuple[tuple[str, str], ...] = ()
    paths: tuple[str, ...] = ()
    created: str = ""

    @property
    def distinct(self) -> dict[str, int]:
        """Number of parameters by component, each once."""
        return {component.id: component.parameters for component in self.components}

    @property
    def own(self) -> int:
        """Number of parameters in components that this agent trained."""
        return sum(size for name, size in self.distinct.items() if name.rpartition(":")[0] == self.agent)


@dataclass(frozen=True)
class ExportSubject:
    """The network to export.

    Attributes:
        network: Module in evaluation mode, on the CPU, without gradients, from samples (B, …) to logits (B, C). It is a
            copy: a format may merge equal parameters of it.
        input: Format of its input.
        classes: Names of the classes, in the order of the logits.
        answer: Returns logits (B, C) for samples, as the network's system computes them; exports must match these.
        provenance: Origin of the network.
        notes: Remarks for people, one sentence each.
    """

    network: nn.Module
    input: SampleInput
    classes: tuple[str, ...]
    answer: Callable[[Samples], Logits]
    provenance: Provenance
    notes: tuple[str, ...] = field(default=())


class Exporter(ABC):
    """An export format; stateless.

    Laws (``testing.exporters``): the file of ``write``, loaded in a fresh process, gives the subject's outputs for any
    number of samples; equal subjects give equal bytes; ``usage`` runs where evodevo is not installed.

    Attributes:
        name: Name of the row, as ``--to`` takes it.
        file: Name of the file that it writes.
        library: Library that reads it, for a card's first lines.
    """

    name: str
    file: str
    library: str

    @abstractmethod
    def write(self, subject: ExportSubject, folder: Path) -> None:
        """Write ``file``.

        Raises:
            UsageError: A network that this format cannot hold; the message names the part, and what to do.
        """

    @abstractmethod
    def ask(self, folder: Path, probes: Sequence[Samples]) -> list[Logits]:
        """Outputs of ``file`` in a fresh process without evodevo, batch by batch.

        Raises:
            VerificationError: The process cannot read it, or fails on a batch.
        """

    @abstractmethod
    def usage(self, subject: ExportSubject) -> Sequence[tuple[str, str]]:
        """(heading, Python) of examples that run in the folder of the export."""

    def notes(self, subject: ExportSubject) -> Sequence[str]:
        """Features that this format leaves out or changes, a sentence each."""
        return ()

    def versions(self) -> Mapping[str, str]:
        """Versions by package of what wrote the file."""
        return {}


EXPORTERS: Registry[Exporter] = table("format of exports", "evodevo.exporters")
EXPORTERS.add("pt2", "evodevo.export.torch_export:PT2")
