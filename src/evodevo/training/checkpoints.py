"""Checkpoints: a manifest of plain data, and the weights as parts in blobs named by their content.

The manifest is canonical JSON. Each part of the model (an embedding, one layer, one entry of a bank) is a blob of its
own (``training.parts``), so that equal parts of different models are stored once; parts under 64 KiB share one blob.
Reading is strict: exactly the expected names, shapes and dtypes, all finite.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from evodevo import canonical
from evodevo.errors import UnsafeFileError, UsageError
from evodevo.settings import Settings, validate
from evodevo.training.loop import Cursor, TrainingSnapshot
from evodevo.training.parts import BlobStore, is_finite, load_part, packed_name, save_part

FORMAT = "evodevo.checkpoint/1"
# Smaller parts share one blob, because every blob costs a file and several waits for the disk.
SMALL_PART_BYTES = 64 * 2**10

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_MOMENTS = ("exp_avg", "exp_avg_sq")


class PartRecord(Settings):
    """Location of one part: its blob, whether the blob holds other parts too, and the names of its tensors."""

    blob: Digest
    packed: bool
    tensors: tuple[str, ...]


class OptimizerRecord(Settings):
    """AdamW's state by parameter name: one blob for each moment, and the number of updates of each parameter."""

    exp_avg: Digest
    exp_avg_sq: Digest
    steps: dict[str, int]


class Manifest(Settings):
    """The whole checkpoint as plain data.

    Args:
        format: Name of the checkpoint format.
        genome: Envelope of the genome that the model was compiled from; None where there is none.
        input: Input specification of the model.
        parts: Name of a part -> location of its tensors.
        optimizer: State of the optimiser; None where only weights were saved.
        cursor: Position of the training; None where only weights were saved.
        attachments: Role -> blob of other data that belong to the model ("tokenizer").
    """

    format: str = Field(pattern=f"^{re.escape(FORMAT)}$")
    genome: dict[str, Any] | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    parts: dict[str, PartRecord]
    optimizer: OptimizerRecord | None = None
    cursor: Cursor | None = None
    attachments: dict[str, Digest] = Field(default_factory=dict)

    def digests(self) -> list[str]:
        """Digests of all blobs that the manifest names, sorted. A run that keeps the checkpoint must hold them all."""
        digests = {record.blob for record in self.parts.values()} | set(self.attachments.values())
        if self.optimizer is not None:
            digests |= {self.optimizer.exp_avg, self.optimizer.exp_avg_sq}
        return sorted(digests)


@dataclass(frozen=True)
class Checkpoint:
    """The manifest of a checkpoint, and the store of its blobs."""

    manifest: Manifest
    store: BlobStore

    def restore(self, model: nn.Module) -> None:
        """Copy the weights into a model of the same shape.

        Raises:
            UnsafeFileError: The blobs do not hold exactly the model's tensors, all finite; the model is unchanged.
        """
        expected = model.state_dict()
        loaded: dict[str, Tensor] = {}
        blobs: dict[str, dict[str, Tensor]] = {}
        for part, record in self.manifest.parts.items():
            if record.blob not in blobs:
                blobs[record.blob] = load_part(self.store, record.blob, f"the weights of {part!r}")
            tensors = blobs[record.blob]
            for name in record.tensors:
                stored = packed_name(part, name) if record.packed else name
                if stored not in tensors:
                    raise UnsafeFileError(f"the weights of {part!r} lack the tensor {name!r} that the manifest names.")
                loaded[name if part == "." else f"{part}.{name}"] = tensors[stored]
        # All tensors are checked before the first is copied, so that a refused file leaves the model as it was.
        _check_tensors(loaded, expected, "the checkpoint")
        with torch.no_grad():
            for name, tensor in expected.items():
                tensor.copy_(loaded[name])

    def snapshot(self, model: nn.Module) -> TrainingSnapshot:
        """The state that ``train(resume=…)`` needs beside the weights.

        Raises:
            UsageError: The checkpoint holds weights only.
            UnsafeFileError: The optimiser's state does not fit this model's trainable parameters.
        """
        record, cursor = self.manifest.optimizer, self.manifest.cursor
        if record is None or cursor is None:
            raise UsageError("this checkpoint holds weights only; a training cannot be resumed from it.")
        trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        unknown = sorted(set(record.steps) - set(trainable))
        if unknown:
            raise UnsafeFileError(
                f"the checkpoint has an optimiser state for {unknown[0]!r}, which the model does not train."
            )
        expected = {name: trainable[name] for name in record.steps}
        state: dict[str, dict[str, Tensor]] = {
            name: {"step": torch.tensor(float(steps), dtype=torch.float32)} for name, steps in record.steps.items()
        }
        for moment in _MOMENTS:
            what = f"the optimiser's {moment}"
            tensors = load_part(self.store, getattr(record, moment), what)
            _check_tensors(tensors, expected, what)
            for name, tensor in tensors.items():
                state[name][moment] = tensor
        return TrainingSnapshot(cursor, state)

    def attachment(self, role: str) -> bytes:
        """The bytes attached under that role.

        Raises:
            UsageError: The checkpoint has no attachment of that role.
        """
        if role not in self.manifest.attachments:
            raise UsageError(
                f"this checkpoint has no {role!r}; it has: {', '.join(self.manifest.attachments) or 'none'}."
            )
        return self.store.get(self.manifest.attachments[role])


def save(
    store: BlobStore,
    model: nn.Module,
    *,
    snapshot: TrainingSnapshot | None = None,
    genome: dict[str, Any] | None = None,
    input_specification: dict[str, Any] | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> str:
    """Write a checkpoint, the manifest last, so that no manifest ever names a missing blob.

    Args:
        store: Storage of the blobs.
        model: Model whose ``state_dict`` is saved.
        snapshot: State of the training, for a resume; None saves weights only.
        genome: Envelope of the model's genome.
        input_specification: Input specification of the model, JSON-able.
        attachments: Role -> bytes that belong to the model.

    Returns:
        Digest of the manifest, which names the checkpoint.

    Raises:
        UsageError: A tensor is not finite, or there are too many tensors.
    """
    optimizer = None
    if snapshot is not None:
        state = snapshot.optimizer
        moments = {m: save_part(store, {name: values[m] for name, values in state.items()}) for m in _MOMENTS}
        optimizer = OptimizerRecord(**moments, steps={name: int(values["step"]) for name, values in state.items()})
    manifest = Manifest(
        format=FORMAT,
        genome=genome,
        input=input_specification or {},
        parts=_save_parts(store, model),
        optimizer=optimizer,
        cursor=None if snapshot is None else snapshot.cursor,
        attachments={role: store.put_bytes(data) for role, data in (attachments or {}).items()},
    )
    return store.put_bytes(canonical.dumps(manifest.model_dump(mode="json")).encode())


def load(store: BlobStore, digest: str) -> Checkpoint:
    """Read the manifest of a checkpoint; weights are read only by ``restore`` and ``snapshot``.

    Raises:
        UnsafeFileError: The blob is no manifest of this format.
    """
    data = store.get(digest)
    try:
        value = canonical.loads(data, what="the checkpoint's manifest")
        if not isinstance(value, dict):
            raise UsageError("it is not an object.")
        return Checkpoint(validate(Manifest, value, what="the checkpoint's manifest"), store)
    except UsageError as error:
        raise UnsafeFileError(f"not a checkpoint of format {FORMAT!r}: {error}") from None


def parts_of(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """A model's tensors by part and by their name in the part.

    A part is one entry of a top-level list or dictionary of modules (``layers.3``), any other whole top-level module
    (``embedding``), or ``.`` for tensors of the model itself.
    """
    parts: dict[str, dict[str, Tensor]] = {}
    containers = {
        name
        for name, child in model.named_children()
        if isinstance(child, (nn.ModuleList, nn.ModuleDict, nn.Sequential))
    }
    for full_name, tensor in model.state_dict().items():
        pieces = full_name.split(".")
        depth = 2 if pieces[0] in containers else 1
        part = ".".join(pieces[:depth]) if len(pieces) > depth else "."
        parts.setdefault(part, {})[full_name.removeprefix(f"{part}.")] = tensor
    return parts


def _save_parts(store: BlobStore, model: nn.Module) -> dict[str, PartRecord]:
    parts = parts_of(model)
    sizes = {part: sum(tensor.nbytes for tensor in tensors.values()) for part, tensors in parts.items()}
    small = {part for part, size in sizes.items() if size < SMALL_PART_BYTES}
    packed = {packed_name(part, name): tensor for part in small for name, tensor in parts[part].items()}
    packed_blob = save_part(store, packed) if packed else ""
    return {
        part: PartRecord(
            blob=packed_blob if part in small else save_part(store, tensors),
            packed=part in small,
            tensors=tuple(sorted(tensors)),
        )
        for part, tensors in parts.items()
    }


def _check_tensors(given: Mapping[str, Tensor], expected: Mapping[str, Tensor], what: str) -> None:
    missing, extra = sorted(set(expected) - set(given)), sorted(set(given) - set(expected))
    if missing:
        raise UnsafeFileError(f"{what} lacks {missing[0]!r} (and {len(missing) - 1} more).")
    if extra:
        raise UnsafeFileError(
            f"{what} has {extra[0][:200]!r} (and {len(extra) - 1} more), which the model does not have."
        )
    for name, tensor in given.items():
        wanted = expected[name]
        if tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
            raise UnsafeFileError(
                f"{what} has {name!r} as {tuple(tensor.shape)} of {tensor.dtype}; "
                f"the model has {tuple(wanted.shape)} of {wanted.dtype}."
            )
        if not is_finite(tensor):
            raise UnsafeFileError(f"{what} has NaN or infinity in {name!r}.")
