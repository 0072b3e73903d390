"""A trained network of a store as a path to be: its description, and the blobs of its checkpoint as components.

Nothing is trained, converted or copied: a component is a blob of the checkpoint, by its digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evodevo import canonical
from evodevo.errors import DataError, UsageError
from evodevo.execution.base import Report
from evodevo.module_zoo.encoders.spec import read_inputs
from evodevo.multitask.evaluate_settings import answered
from evodevo.multitask.paths.network.model import NetworkPath, part_of
from evodevo.multitask.paths.network.spec import NetworkInput, NetworkPart, NetworkStructure, role_of
from evodevo.multitask.paths.weights import count_parameters, load_state
from evodevo.multitask.problem import EVALS, IMPROVED, SIZES
from evodevo.networks.base import Batch, Network
from evodevo.networks.saved import load_network, reopen_task
from evodevo.networks.spec import NetworkEnvelope
from evodevo.search.problem import Outcome
from evodevo.settings import validate
from evodevo.storage.blobs import BlobPool
from evodevo.storage.pools import pool_at
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.modalities import modality_of
from evodevo.tasks.text.tokenizers import ByteTokenizer, from_bytes
from evodevo.training import checkpoints

_ROWS = 2


@dataclass(frozen=True)
class Imported:
    """A network as a path to be.

    Attributes:
        structure: headless.
        digests: role -> blob of its component; small parts of a checkpoint share one.
    """

    structure: NetworkStructure
    digests: Mapping[str, str]

    @property
    def modalities(self) -> tuple[str, ...]:
        """Modalities that it can read."""
        return tuple(spec.asks for spec in self.structure.read)


def read_import(pool: BlobPool, weights: str, cache_folder: Path | None = None) -> Imported:
    """A checkpoint as a path to be.

    Args:
        pool: pool of its blobs.
        weights: digest of the checkpoint of a network of samples, or of a language model.
        cache_folder: folder of prepared data, with the tokenizer of texts.

    Raises:
        UnsafeFileError, StoreDamagedError, NotFoundError: a checkpoint that cannot be read.
        UsageError: a network that no other task can have read.
        DataError: the data with its tokenizer are gone; or the rebuilt network answers otherwise.
    """
    given = checkpoints.load(pool, weights).manifest.input
    network, described, kind = _backbone(pool, weights) if "space" in given else _network(pool, weights, cache_folder)
    return _taken_apart(pool, weights, network, described, kind)


def evaluate_import(payload: bytes, report: Report) -> bytes:
    """Return the components of an import, after each blob was read and found whole: no training.

    Args:
        payload: ``imported``: role -> ``digest`` and ``parameters``; ``blobs``: folder of the pool.
        report: not called.
    """
    request = canonical.loads(payload, what="an import", max_bytes=1 << 26)
    imported = request["imported"]

    def verified() -> Outcome:
        for role, part in imported.items():
            load_state(pool_at(request["blobs"]), part["digest"], role)
        sizes = {role: part["parameters"] for role, part in imported.items()}
        return Outcome(
            extra={EVALS: [], IMPROVED: True, SIZES: sizes, "explanation": "an import"},
            blobs={role: part["digest"] for role, part in imported.items()},
        )

    return answered(verified)


def _network(pool: BlobPool, weights: str, cache_folder: Path | None) -> tuple[Network, dict[str, Any], str]:
    kept = checkpoints.load(pool, weights).manifest
    network, about = load_network(pool, weights)
    spec = validate(NetworkEnvelope, kept.genome or {}, what="the checkpoint's network").network
    structure = spec.structure
    read = {source.name for source in read_inputs(getattr(structure, "without", ()), network.input_specs)}
    texts = [source for source in network.input_specs if source.modality == "tokens" and source.name in read]
    task = reopen_task(about, cache_folder) if texts else None  # its tokenizer maps ids to tokens
    ids = {text.name: modality_of(task, text).removeprefix("tokens:") for text in texts if task is not None}
    can_do_without = all(getattr(member, "missing", False) for member in getattr(structure, "members", (structure,)))
    inputs = [
        _input(
            source,
            ids.get(source.name, ""),
            "unread" if source.name not in read else "optional" if can_do_without else "needed",
        )
        for source in network.input_specs
    ]
    described = {"source": "network", "genome": kept.genome, "inputs": inputs, "outputs": kept.input["outputs"]}
    return network, {**described, "newborns": kept.input.get("newborns", {})}, spec.kind


def _backbone(pool: BlobPool, weights: str) -> tuple[Network, dict[str, Any], str]:
    kept = checkpoints.load(pool, weights)
    model, read = load_network(pool, weights)
    own = {"space": read["space"], "model": read["model"]}
    tokenizer = from_bytes(kept.attachment("tokenizer"))
    name = tokenizer.kind if isinstance(tokenizer, ByteTokenizer) else tokenizer.digest
    inputs = [_input(model.input_specs[0], name, "needed")]
    return model, {"source": "backbone", "genome": kept.manifest.genome, "model": own, "inputs": inputs}, "backbone"


def _input(spec: InputSpec, tokenizer: str, use: str) -> dict[str, Any]:
    return {**vars(spec), "tokenizer": tokenizer, "use": use}


def _taken_apart(pool: BlobPool, weights: str, network: Network, described: dict[str, Any], kind: str) -> Imported:
    kept = checkpoints.load(pool, weights).manifest
    unread = network.unrepresented()
    parts = [
        NetworkPart(role=role_of(name), name=name, parameters=count_parameters(part_of(network, name)))
        for name in checkpoints.parts_of(network)
        if name.partition(".")[0] not in unread or name == "."
    ]
    plain = {**described, "parts": [part.model_dump() for part in parts], "width": 1}
    structure = validate(NetworkStructure, plain, what="the network")
    digests = {part.role: kept.parts[part.name].blob for part in parts}
    path = NetworkPath(structure)
    for role, digest in digests.items():
        path.put(role, load_state(pool, digest, role))
    batch = _batch(structure.read)
    with torch.no_grad():
        pooled = path(batch)
        if not torch.equal(pooled, network.represent(batch).pooled):
            raise DataError("put together again, the network answers otherwise; it cannot be imported.")
    if pooled.ndim != 2 or not bool(torch.isfinite(pooled).all()):
        raise UsageError("what the network represents is no row of finite numbers for each sample.")
    return Imported(structure.changed(width=pooled.shape[1]), digests)


def _batch(inputs: Sequence[NetworkInput]) -> Batch:
    """Two samples of zeros."""
    tensors: dict[str, Tensor] = {}
    for spec in inputs:
        if spec.modality == "image":
            tensors[spec.name] = torch.zeros(_ROWS, spec.height, spec.width, spec.channels, dtype=torch.uint8)
        elif spec.modality == "tokens":
            tensors[spec.name] = torch.zeros(_ROWS, spec.length, dtype=torch.long)
        else:
            shape = (_ROWS, spec.size) if spec.modality == "vector" else (_ROWS, spec.length, spec.size)
            tensors[spec.name] = torch.zeros(shape)
    return tensors
