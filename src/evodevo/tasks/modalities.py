"""What a task's samples consist of, in words by which a path knows whether it can read them (docs/spec/munet.md#tasks).

Images can be resized; ids of tokens mean something only to who knows the tokenizer, and numbers only where they are as
many. A task of a system hands out texts as bytes where its source can, since every path can read those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from evodevo import canonical
from evodevo.tasks.base import TASKS, InputSpec, SampleTask
from evodevo.tasks.text.words import Vocabulary

BYTES = "bytes"
READ_BYTES = 256
"""Bytes of a text that a task hands out where nobody says how many; paths read fewer, or all."""


def modalities_of(task: SampleTask) -> tuple[str, ...]:
    """Those of all inputs, each once.

    Returns:
        ``image``; ``tokens:bytes``, or ``tokens:DIGEST`` of another tokenizer; ``vector:SIZE``, ``features:SIZE``.
    """
    return tuple(dict.fromkeys(modality_of(task, one) for one in task.inputs))


def modality_of(task: SampleTask, spec: InputSpec) -> str:
    """That of one input of a task."""
    if spec.modality == "image":
        return spec.modality
    return f"{spec.modality}:{_tokenizer(task) if spec.modality == 'tokens' else spec.size}"


def with_bytes(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a source of texts that hands out bytes, unless they say otherwise themselves.

    Args:
        source: row of ``TASKS``.
        options: of it.
    """
    fields = TASKS.get(source).settings_class.model_fields
    if "tokenizer" not in fields or options.get("tokenizer", BYTES) != BYTES:
        return dict(options)
    length = {"length": READ_BYTES} if "length" in fields else {}
    return {"tokenizer": BYTES, **length, **options}


def _tokenizer(task: SampleTask) -> str:
    """``bytes``, or 64 hexadecimal digits over what makes ids of texts."""
    source = getattr(task, "source", task)
    coder = getattr(source, "tokenizer", None) or getattr(source, "coder", None)
    if coder is not None:
        return BYTES if coder.describe()["kind"] == BYTES else hashlib.sha256(coder.to_bytes()).hexdigest()
    words = getattr(source, "vocabulary", None)
    return canonical.digest(list(words.words)) if isinstance(words, Vocabulary) else source.digest
