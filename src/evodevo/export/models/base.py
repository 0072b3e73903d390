"""Interface of the formats of trained models, the rows of ``MODEL_EXPORTERS``, and the data of such an export.

Legend: B samples, T tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError, quoted_list
from evodevo.randomness import generator
from evodevo.registry import Registry, table

if TYPE_CHECKING:
    from torch import nn

    from evodevo.operators.source.sheet import Program
    from evodevo.tasks.text.tokenizers import Tokenizer

Arrays = tuple[NDArray[Any], ...]
"""One array for each input, or for each output."""
FREE_LENGTHS = (1, 17, 65)
"""Numbers of tokens of the probes where they are free."""
SAMPLES = (1, 2, 3)


@dataclass(frozen=True)
class TensorInput:
    """One input of an exported model.

    Attributes:
        name: Name of the input.
        dtype: Type of its numbers.
        shape: Sizes after the axis of samples; None is a number of tokens.
        below: Number above every integer, for token ids; 0 = none.
        longest: Largest number of tokens; 0 where the input has no such axis.
    """

    name: str
    dtype: Literal["int64", "uint8", "float32", "bool"]
    shape: tuple[int | None, ...]
    below: int = 0
    longest: int = 0

    def drawn(self, samples: int, tokens: int) -> NDArray[Any]:
        """A probe, the same everywhere."""
        sizes = (samples, *(tokens if size is None else size for size in self.shape))
        chance = generator(0, samples, tokens, f"probe/{self.name}")
        if self.dtype == "float32":
            return chance.standard_normal(sizes).astype(np.float32)
        if self.dtype == "bool":  # a mask: texts of different lengths, filled on the right
            return np.arange(tokens) < chance.integers(1, tokens + 1, (samples, 1))
        return chance.integers(0, self.below or 256, sizes).astype(self.dtype)

    def to_json(self) -> dict[str, Any]:
        """The entry of ``spec.json``; None is any size."""
        limits: dict[str, Any] = {"below": self.below} if self.below else {}
        if self.longest:
            limits["longest"] = self.longest
        return {"name": self.name, "dtype": self.dtype, "shape": [None, *self.shape], **limits}


@dataclass(frozen=True)
class Story:
    """Origin of a model, for people and for the manifest.

    Attributes:
        title: Title in one line.
        source: Origin of the model: individual, run, recipe, seed, each a short text.
        architecture: Description of the architecture in sentences.
        svg: Drawing of the architecture, or None.
        training: Facts of its training (name, value).
        scores: Tables of scores: (heading, column names, rows).
        lineage: (id, operation, architecture) from the model to its first ancestors, nearest first.
        notes: Remarks, a sentence each.
    """

    title: str
    source: Mapping[str, str]
    architecture: tuple[str, ...] = ()
    svg: str | None = None
    training: tuple[tuple[str, str], ...] = ()
    scores: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...] = ()
    lineage: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelSubject:
    """The model to export.

    Attributes:
        kind: Kind of its network, a row of ``NETWORKS``.
        name: Name of the model in messages.
        network: Module in evaluation mode, on the CPU, from tensors in the order of ``inputs`` to a tuple of tensors in
            the order of ``outputs``.
        inputs: Inputs of the network.
        outputs: (name, meaning of its last axis, names of the entries of that axis where it has some).
        story: Origin and history of the model.
        model: The network as its room made it, for formats of one kind.
        tokenizer: Tokenizer of its text, or None.
        context_length: Number of tokens of the windows that it was trained on; 0 without text.
        program: Function that writes its source; it raises ``UsageError`` where a part of it has none. None where its
            kind has none.
    """

    kind: str
    name: str
    network: nn.Module
    inputs: tuple[TensorInput, ...]
    outputs: tuple[tuple[str, str, tuple[str, ...]], ...]
    story: Story
    model: Any = None
    tokenizer: Tokenizer | None = None
    context_length: int = 0
    notes: tuple[str, ...] = field(default=())
    program: Callable[[], Program] | None = None

    @property
    def longest(self) -> int | None:
        """Largest number of tokens of a text; None where nothing bounds it, 0 without text."""
        limits = [one.longest for one in self.inputs if None in one.shape]
        return None if limits and not all(limits) else min(limits, default=0)

    def answer(self, probe: Arrays) -> Arrays:
        """Outputs of the network."""
        import torch

        with torch.no_grad():
            outputs = self.network(*(torch.from_numpy(array) for array in probe))
        return tuple(output.float().numpy() for output in outputs)

    def probes(self, lengths: Sequence[int] | None = None, samples: int | None = None) -> list[Arrays]:
        """Batches that are the same everywhere.

        Args:
            lengths: Numbers of tokens where they are not free.
            samples: Number of samples where it is not free.
        """
        known = lengths or FREE_LENGTHS
        limit = self.longest
        sizes = [length if not limit else min(length, limit) for length in known]
        places = [(samples or count, sizes[place % len(sizes)]) for place, count in enumerate(SAMPLES)]
        return [tuple(one.drawn(*place) for one in self.inputs) for place in places]


@dataclass(frozen=True)
class Written:
    """The result of writing a format.

    Attributes:
        facts: Entries of ``spec.json``.
        lengths: Numbers of tokens that the file takes; None = any.
        notes: Remarks on this file, a sentence each.
        alone: Whether the files are read without evodevo.
        samples: Number of samples that the file takes at a time; None = any.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    alone: bool = True
    samples: int | None = None


class ModelExporter(ABC):
    """A format of trained models; stateless.

    Laws (``testing.model_exporters``): the files of ``write``, loaded in a fresh process, give the model's outputs;
    equal subjects give equal bytes; ``usage`` runs in the folder.

    Attributes:
        name: Name of the row, as ``--to`` takes it.
        kinds: Kinds of networks that it holds; empty = all.
    """

    name: str
    kinds: frozenset[str] = frozenset()

    def check(self, subject: ModelSubject) -> None:
        """Raise ``UsageError`` for a model that this format cannot hold; the message names one that can."""
        if self.kinds and subject.kind not in self.kinds:
            others = quoted_list(sorted(set(MODEL_EXPORTERS.names()) - {self.name}))
            raise UsageError(
                f"{subject.name} is a network of kind {subject.kind!r}; {self.name} holds"
                f" {quoted_list(sorted(self.kinds))} only. Take --to pt2, which holds every kind (formats: {others})."
            )

    def holds(self, subject: ModelSubject) -> bool:
        """Whether it can hold the model, as far as can be told before it is written."""
        try:
            self.check(subject)
        except UsageError:
            return False
        return True

    @abstractmethod
    def write(self, subject: ModelSubject, folder: Path) -> Written:
        """Write the files of the format.

        Raises:
            UsageError: A network that this format cannot hold; the message names the part, and what to do.
        """

    @abstractmethod
    def ask(self, folder: Path, probes: Sequence[Arrays]) -> list[list[Arrays]]:
        """For each probe the outputs in a fresh process, once for each way of computing them (whole, step by step).

        Raises:
            VerificationError: The process cannot read the files, or fails on a probe.
        """

    @abstractmethod
    def usage(self, subject: ModelSubject, written: Written) -> Sequence[tuple[str, str]]:
        """(heading, Python) of examples that run in the folder of the export."""

    @abstractmethod
    def library(self, written: Written) -> str:
        """Library that reads it, for a card's first lines."""

    def versions(self) -> Mapping[str, str]:
        """Versions by package of what wrote the files."""
        return {}


MODEL_EXPORTERS: Registry[ModelExporter] = table("format of exported models", "evodevo.model_exporters")
MODEL_EXPORTERS.add("source", "evodevo.export.models.source:SOURCE")
MODEL_EXPORTERS.add("pt2", "evodevo.export.models.pt2:PT2")
MODEL_EXPORTERS.add("onnx", "evodevo.export.models.onnx:ONNX")
