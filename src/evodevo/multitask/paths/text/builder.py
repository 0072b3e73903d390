"""Text paths put together, over bytes or subwords; see ``paths.builder``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.blocks_spec import EMBEDDING
from evodevo.multitask.paths.builder import ComponentBuilder, Components, Read, State
from evodevo.multitask.paths.model import filled
from evodevo.multitask.paths.text.model import TextPath, TokenEmbedding, build_component, resize_positions
from evodevo.multitask.paths.text.reading import bytes_input, bytes_of, read_samples, texts_of, tokenizer_of
from evodevo.multitask.paths.text.spec import TextStructure, path_work
from evodevo.tasks.base import SampleTask
from evodevo.tasks.text.tokenizers import Tokenizer, train_bpe

_MOST_TEXTS = 20_000
"""On which a tokenizer is trained: of a larger task the first ones."""


class TextBuilder(ComponentBuilder[TextStructure]):
    """See ``ComponentBuilder``. A new embedding of subwords gets a tokenizer that is trained on the task's training
    texts.
    """

    path = TextPath

    def of_samples(
        self, structure: TextStructure, role: str, seed: int, task: SampleTask | None, *, identity: bool
    ) -> nn.Module:
        if role != EMBEDDING or structure.tokenizer == "bytes":
            return self.path.component(structure, role, seed, identity=identity)
        if task is None:
            raise UsageError("a tokenizer is trained on the texts of a task, and this root has none.")
        places = np.arange(min(task.count("train"), _MOST_TEXTS))
        texts = texts_of(*bytes_of(task.fetch("train", places), bytes_input(task.inputs)))
        tokenizer = train_bpe([text.encode() for text in texts], structure.vocabulary).to_bytes()
        return build_component(structure, role, seed, tokenizer=tokenizer)

    def restore(self, structure: TextStructure, role: str, state: State) -> nn.Module:
        """See ``ComponentBuilder.restore``; the tokenizer of subwords is stored with their embedding.

        Raises:
            UsageError: subwords without a tokenizer, or bytes with one.
            DataError: weights of another component.
        """
        tokenizer = bytes(state["tokenizer"].numpy()) if role == EMBEDDING and "tokenizer" in state else b""
        return filled(build_component(structure, role, 0, tokenizer=tokenizer), role, state)

    def resize(self, structure: TextStructure, role: str, state: State, seed: int) -> dict[str, Tensor]:
        return resize_positions(state, structure.length)

    def flops(self, structure: TextStructure) -> float:
        return float(path_work(structure).total)

    def read(self, structure: TextStructure, components: Components) -> Read:
        return partial(read_samples, structure, _tokenizer(components))

    def reads(self, structure: TextStructure, components: Components) -> str:
        return f"{structure.length} tokens of {_identity(components)}"

    def preparation(self, structure: TextStructure, components: Components) -> Mapping[str, Any]:
        return {**structure.input_spec, "digest": _identity(components)}


def _tokenizer(components: Components) -> Tokenizer | None:
    return tokenizer_of(cast(TokenEmbedding, components[EMBEDDING]))


def _identity(components: Components) -> str:
    tokenizer = _tokenizer(components)
    return "bytes" if tokenizer is None else tokenizer.digest


BUILDER = TextBuilder()
