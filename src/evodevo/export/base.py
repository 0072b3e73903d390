"""What is exported, and what a format is: a row of ``EXPORTERS``.

Legend: B samples, C classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from evodevo.registry import Registry, table

Images = NDArray[np.uint8]
Logits = NDArray[np.float32]


@dataclass(frozen=True)
class ImageInput:
    """What an exported network reads: images of one size, as bytes (B, height, width, channels)."""

    height: int
    width: int
    channels: int

    def to_json(self) -> dict[str, Any]:
        """As ``spec.json`` holds it; None stands for any number of samples."""
        return {
            "name": "images",
            "modality": "image",
            "dtype": "uint8",
            "shape": [None, self.height, self.width, self.channels],
            "axes": ["samples", "height", "width", "channels"],
            "range": [0, 255],
            "mode": "L" if self.channels == 1 else "RGB",
        }


@dataclass(frozen=True)
class Component:
    """A part of an exported network.

    Attributes:
        path: whose part it is, "agent/number".
        role: its place there.
        id: "agent:number" of who made it.
        digest: SHA-256 of its weights.
        parameters: how many numbers it has.
    """

    path: str
    role: str
    id: str
    digest: str
    parameters: int


@dataclass(frozen=True)
class Provenance:
    """Where a network comes from, for people and for the manifest.

    Attributes:
        system, agent, task, path: names.
        kind: of the path.
        validation: accuracy by which it was chosen; None where there is none.
        test: accuracy on data that played no part; None where nobody measured.
        test_samples: that it was measured on.
        flops: of one sample.
        components: all that it is made of, those of paths inside it too.
        ancestors: paths from which it inherited, nearest first: ("agent/number", what was changed).
        paths: inside a multipath one, the main path first.
        created: when it was trained.
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
        """Component -> parameters, each once."""
        return {one.id: one.parameters for one in self.components}

    @property
    def own(self) -> int:
        """Parameters of components that this agent trained."""
        return sum(size for name, size in self.distinct.items() if name.rpartition(":")[0] == self.agent)


@dataclass(frozen=True)
class Subject:
    """What is to be exported.

    Attributes:
        network: in evaluation, on the CPU, without gradients: images (B, height, width, channels) of bytes -> logits
            (B, C). A copy of one's own: a format may let equal parameters of it be one.
        image: what it is asked about.
        classes: names, in the order of the logits.
        answer: images -> logits (B, C), as whoever asks the network in its system gets them; exports are held to that.
        provenance: where it comes from.
        notes: what people have to know, a sentence each.
    """

    network: nn.Module
    image: ImageInput
    classes: tuple[str, ...]
    answer: Callable[[Images], Logits]
    provenance: Provenance
    notes: tuple[str, ...] = field(default=())


class Exporter(ABC):
    """One format. It keeps no state.

    Laws (``testing.exporters``): what a fresh process reads from ``write``'s file answers as the subject does, for any
    number of samples; equal subjects give equal bytes; ``usage`` runs where evodevo is not installed.

    Attributes:
        name: of the row, as ``--to`` takes it.
        file: that it writes.
        library: what reads it, for a card's first lines.
    """

    name: str
    file: str
    library: str

    @abstractmethod
    def write(self, subject: Subject, folder: Path) -> None:
        """Write ``file``.

        Raises:
            UsageError: a network that this format cannot hold; the message says which part, and what to do.
        """

    @abstractmethod
    def ask(self, folder: Path, probes: Sequence[Images]) -> list[Logits]:
        """What a fresh process, without evodevo, gets from ``file``; batch by batch.

        Raises:
            VerificationError: it cannot read it, or fails on a batch.
        """

    @abstractmethod
    def usage(self, subject: Subject) -> Sequence[tuple[str, str]]:
        """(heading, Python) of examples that run in the folder of the export."""

    def notes(self, subject: Subject) -> Sequence[str]:
        """What this format leaves out or changes, a sentence each."""
        return ()

    def versions(self) -> Mapping[str, str]:
        """Package -> version of what wrote the file."""
        return {}


EXPORTERS: Registry[Exporter] = table("format of exports", "evodevo.exporters")
EXPORTERS.add("pt2", "evodevo.export.torch_export:PT2")
