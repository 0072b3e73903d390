"""Names of a task's modalities, by which a path of a multitask system is matched to a task (docs/spec/munet.md#tasks).

Any image can be resized, but token ids are valid for one tokenizer only, and vectors for one size only. A task of a
system therefore returns texts as bytes where its source can, since every path can read those.
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
"""Default number of bytes of a text in a batch; paths read fewer, or all."""


def modalities_of(task: SampleTask) -> tuple[str, ...]:
    """The distinct modalities of all inputs.

    Returns:
        ``image``; ``tokens:bytes``, or ``tokens:DIGEST`` for another tokenizer; ``vector:SIZE``, ``features:SIZE``.
    """
    return tuple(dict.fromkeys(modality_of(task, spec) for spec in task.inputs))


def modality_of(task: SampleTask, spec: InputSpec) -> str:
    """The modality of one input of a task."""
    if spec.modality == "image":
        return spec.modality
    return f"{spec.modality}:{_tokenizer(task) if spec.modality == 'tokens' else spec.size}"


def with_bytes(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a source, changed so that texts are bytes unless the options choose another tokenizer.

    Args:
        source: Name in ``TASKS``.
        options: Options of the source.
    """
    fields = TASKS.get(source).settings_class.model_fields
    if "tokenizer" not in fields or options.get("tokenizer", BYTES) != BYTES:
        return dict(options)
    length = {"length": READ_BYTES} if "length" in fields else {}
    return {"tokenizer": BYTES, **length, **options}


def _tokenizer(task: SampleTask) -> str:
    """``bytes``, or 64 hexadecimal digits over the tokenizer."""
    source = getattr(task, "source", task)
    coder = getattr(source, "tokenizer", None) or getattr(source, "coder", None)
    if coder is not None:
        return BYTES if coder.describe()["kind"] == BYTES else hashlib.sha256(coder.to_bytes()).hexdigest()
    words = getattr(source, "vocabulary", None)
    return canonical.digest(list(words.words)) if isinstance(words, Vocabulary) else source.digest
