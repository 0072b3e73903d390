"""Text paths at work: blocks over bytes or subwords, from components that were stored, copied, resized or made anew,
and the ids that the first component reads of a task's bytes.

Legend: B samples, L bytes of the longest text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.blocks_spec import EMBEDDING
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.model import component_of, stored_components
from evodevo.multitask.paths.text.model import (
    MASK,
    TOKENS,
    TextPath,
    TokenEmbedding,
    build_component,
    component_from_state,
    resize_positions,
)
from evodevo.multitask.paths.text.spec import BYTES, TextStructure, path_work, structure_of
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.text.tokenizers import Tokenizer, from_bytes, train_bpe
from evodevo.training.precision import Precision

_MOST_TEXTS = 20_000
"""On which a tokenizer is trained: of a larger task the first ones."""


def build_text_path(request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
    """The path of a request. A new embedding of subwords gets a tokenizer that is trained on the task's training texts.

    Raises:
        UsageError: the task hands out no bytes.
        StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    structure = structure_of(request.path)

    def trained() -> bytes:
        places = np.arange(min(task.count("train"), _MOST_TEXTS))
        texts = texts_of(*_bytes(task.fetch("train", places), _bytes_input(task.inputs)))
        return train_bpe([text.encode() for text in texts], structure.vocabulary).to_bytes()

    components = {
        role: _component(structure, role, source, pool, request.seed, trained)
        for role, source in request.components.items()
    }
    read = partial(_read, structure, _tokenizer(components))
    return BuiltPath(TextPath(structure, components), components, float(path_work(structure).total), read, precision)


def freeze_text_path(path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
    """A published path, whole or without its head; see ``SinglepathKind.freeze``."""
    structure = structure_of(path)
    if not head:
        structure = structure.changed(classes=0)
    parts = stored_components(structure, path, digests, pool, partial(component_from_state, structure))
    model = TextPath(structure, parts).eval()
    tokenizer = _tokenizer(parts)
    return FrozenPart(
        FrozenPath(model, reads=f"{structure.length} tokens of {_identity(tokenizer)}"),
        partial(_read, structure, tokenizer),
        structure.model_dump(mode="json"),
        {**structure.input_spec, "digest": _identity(tokenizer)},
        structure.width,
        float(path_work(structure).total),
    )


def make_text_root(request: PathRequest, pool: BlobPool) -> dict[str, nn.Module]:
    """The components of a root; see ``SinglepathKind.make_root``.

    Raises:
        UsageError: not at random.
    """
    if request.root != "random_init":
        raise UsageError("a root of a text path is made at random, or pretrained on a task.")

    def refused() -> bytes:
        raise UsageError("a tokenizer is trained on the texts of a task, and this root has none.")

    structure = structure_of(request.path)
    return {
        role: _component(structure, role, source, pool, request.seed, refused)
        for role, source in request.components.items()
    }


def _component(
    structure: TextStructure,
    role: str,
    source: ComponentSource,
    pool: BlobPool,
    seed: int,
    tokenizer: Callable[[], bytes],
) -> nn.Module:
    """One component from its source; ``tokenizer`` makes that of a new embedding of subwords."""

    def make(identity: bool) -> nn.Module:
        kept = tokenizer() if role == EMBEDDING and structure.tokenizer != "bytes" else b""
        return build_component(structure, role, seed, identity=identity, tokenizer=kept)

    return component_of(
        role,
        source,
        pool,
        make=make,
        restore=lambda state: component_from_state(structure, role, state),
        resize=lambda state: resize_positions(state, structure.length),
    )


def _tokenizer(components: Mapping[str, nn.Module]) -> Tokenizer | None:
    return tokenizer_of(cast(TokenEmbedding, components[EMBEDDING]))


def _identity(tokenizer: Tokenizer | None) -> str:
    return "bytes" if tokenizer is None else tokenizer.digest


def _read(structure: TextStructure, tokenizer: Tokenizer | None, samples: PathSamples) -> dict[str, Tensor]:
    return read_texts(structure, tokenizer, *_bytes(samples.batch, _bytes_input(samples.inputs)))


def _bytes(batch: Batch, name: str) -> tuple[NDArray[np.integer], NDArray[np.bool_]]:
    data = batch[name]
    mask = batch.get(f"{name}/mask")
    real = np.ones(data.shape, np.bool_) if mask is None else mask.astype(np.bool_)
    present = batch.get(f"{name}/present")
    return data, real if present is None else real & present.astype(np.bool_)[:, None]


def _bytes_input(inputs: tuple[InputSpec, ...]) -> str:
    """The name of the one input of bytes.

    Raises:
        UsageError: there is none, or more than one.
    """
    names = [spec.name for spec in inputs if spec.modality == "tokens" and spec.vocabulary == BYTES]
    if len(names) != 1:
        given = ", ".join(f"{spec.name} ({spec.modality})" for spec in inputs)
        raise UsageError(f"a text path reads one text per sample, as bytes; the samples of this task hold {given}.")
    return names[0]


def byte_texts(length: int, samples: PathSamples) -> dict[str, Tensor]:
    """The batch of a path that reads at most so many bytes of each text; see ``read_texts``."""
    data, real = _bytes(samples.batch, _bytes_input(samples.inputs))
    return _checked_bytes(length, data, real)


def tokenizer_of(embedding: TokenEmbedding) -> Tokenizer | None:
    """The tokenizer that is stored with an embedding; None where bytes are the ids.

    Raises:
        DataError: the stored bytes are none.
    """
    kept = embedding.state_dict().get("tokenizer")
    return None if kept is None else from_bytes(bytes(kept.cpu().numpy()))


def texts_of(data: NDArray[np.integer], mask: NDArray[np.bool_]) -> list[str]:
    """Rows of bytes as texts; a character that a task cut in two is left out."""
    whole = data.astype(np.uint8)
    return [whole[row][mask[row]].tobytes().decode("utf-8", "ignore") for row in range(len(whole))]


def read_texts(
    structure: TextStructure, tokenizer: Tokenizer | None, data: NDArray[np.integer], mask: NDArray[np.bool_]
) -> dict[str, Tensor]:
    """The batch of a path from texts.

    Args:
        structure: structure of the path, with its length.
        tokenizer: tokenizer of the path, or None for bytes.
        data: bytes (B, L).
        mask: (B, L), true where a text has one.

    Returns:
        ``TOKENS`` and ``MASK``, at most ``length`` columns each.

    Raises:
        UsageError: no bytes.
    """
    cut = _checked_bytes(structure.length, data, mask)
    if tokenizer is None:
        return cut
    rows = [tokenizer.encode(text)[: structure.length] for text in texts_of(data, mask)]
    ids = np.zeros((len(rows), structure.length), np.int64)
    real = np.zeros(ids.shape, np.bool_)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        real[place, : len(row)] = True
    return _entry(ids, real)


def _checked_bytes(length: int, data: NDArray[np.integer], mask: NDArray[np.bool_]) -> dict[str, Tensor]:
    if data.ndim != 2 or data.shape != mask.shape or (data.size and not 0 <= data.min() <= data.max() < BYTES):
        raise UsageError("a text path reads bytes of shape (samples, bytes) with a mask of the same shape.")
    return _entry(data[:, :length], mask[:, :length])


def _entry(ids: NDArray[np.integer], real: NDArray[np.bool_]) -> dict[str, Tensor]:
    return {
        TOKENS: torch.from_numpy(np.ascontiguousarray(ids, np.int64)),
        MASK: torch.from_numpy(np.ascontiguousarray(real)),
    }
