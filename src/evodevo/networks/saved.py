"""Trained networks of checkpoints, and the tasks that they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import validate
from evodevo.tasks.base import TASKS, OutputSpec, SampleTask
from evodevo.tasks.inputs import InputSpec
from evodevo.training import checkpoints

_MALFORMED = (UsageError, LookupError, TypeError, AttributeError, ValueError)


def open_task(name: str, settings: Any, cache_folder: Path | None, key: str | None = None) -> SampleTask:
    """A task that hands out samples.

    Raises:
        UsageError: an unknown one, or one of another kind.
        DataError: its data cannot be used.
    """
    task = TASKS.get(name).open(settings, cache_folder, key)
    if not isinstance(task, SampleTask):
        raise UsageError(
            f"the task {name!r} hands out no samples with named inputs; a network cannot be trained on it."
        )
    return task


def reopen_task(about: Mapping[str, Any], cache_folder: Path | None = None) -> SampleTask:
    """The task that a network was trained on, from the description that ``load_network`` returns; an error where the
    data differ.

    Raises:
        DataError: its data are gone, or are others by now.
    """
    kind = TASKS.get(about["task"]).settings_class
    settings = validate(kind, about["task_settings"], what=f"settings of the task {about['task']!r}")
    return open_task(about["task"], settings, cache_folder, about.get("task_key"))


def load_network(pool: checkpoints.BlobStore, digest: str) -> tuple[Network, dict[str, Any]]:
    """The network of a checkpoint with its weights, on the CPU, in evaluation mode, and what it reads.

    Returns:
        The network, and its input specification: ``task``, ``task_settings``, ``inputs``, ``outputs``.

    Raises:
        UnsafeFileError: not exactly such a checkpoint.
        StoreDamagedError: a blob is not what was written.
    """
    kept = checkpoints.load(pool, digest)
    given = kept.manifest.input
    try:
        envelope = validate(NetworkEnvelope, kept.manifest.genome or {}, what="the checkpoint's network")
        inputs = tuple(InputSpec(**spec) for spec in given["inputs"])
        outputs = tuple(OutputSpec(**{**spec, "names": tuple(spec["names"])}) for spec in given["outputs"])
    except _MALFORMED as error:
        raise _no_network(error) from None
    network = build_network(envelope.network, inputs, outputs, seed=0)
    kept.restore(network)
    try:
        network.take_state_extras(given)
    except _MALFORMED as error:
        raise _no_network(error) from None
    others = {"memory", *network.state_extras()}
    return network.eval(), {name: value for name, value in given.items() if name not in others}


def _no_network(error: Exception) -> UnsafeFileError:
    return UnsafeFileError(f"not a checkpoint of a network of samples: {error}")
