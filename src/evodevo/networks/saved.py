"""Trained networks of checkpoints, and the tasks that they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.spec import NETWORKS, NetworkEnvelope
from evodevo.settings import validate
from evodevo.tasks.base import TASKS, OutputSpec, SampleTask
from evodevo.tasks.inputs import InputSpec
from evodevo.training import checkpoints
from evodevo.training.parts import BlobStore

_MALFORMED = (UsageError, LookupError, TypeError, AttributeError, ValueError)


def reopen_task(about: Mapping[str, Any], cache_folder: Path | None = None) -> SampleTask:
    """The task that a network was trained on, from the description that ``load_network`` returns; an error where the
    data differ.

    Raises:
        DataError: its data are gone, or are others by now.
    """
    row = TASKS.get(about["task"])
    settings = validate(row.settings_class, about["task_settings"], what=f"settings of the task {about['task']!r}")
    return row.open(settings, cache_folder, about.get("task_key"))


def load_network(pool: BlobStore, digest: str) -> tuple[Network, dict[str, Any]]:
    """The network of a checkpoint with its weights, on the CPU, in evaluation mode, and what it reads.

    Returns:
        The network, and its input specification: ``task``, ``task_settings``, ``inputs``, ``outputs``; of a genome of
        a search what its space keeps.

    Raises:
        UnsafeFileError: not exactly such a checkpoint.
        StoreDamagedError: a blob is not what was written.
    """
    kept = checkpoints.load(pool, digest)
    given = kept.manifest.input
    try:
        genome = kept.manifest.genome or {}
        if "space" in genome:
            spec, inputs, outputs = NETWORKS.get(genome["space"]).recall(genome, given)
        else:
            spec = validate(NetworkEnvelope, genome, what="the checkpoint's network").network
            inputs = tuple(InputSpec(**values) for values in given["inputs"])
            outputs = tuple(OutputSpec(**{**values, "names": tuple(values["names"])}) for values in given["outputs"])
    except _MALFORMED as error:
        raise _no_network(error) from None
    network = build_network(spec, inputs, outputs, seed=0)
    kept.restore(network)
    try:
        network.take_state_extras(given)
    except _MALFORMED as error:
        raise _no_network(error) from None
    others = {"memory", *network.state_extras()}
    return network.eval(), {name: value for name, value in given.items() if name not in others}


def _no_network(error: Exception) -> UnsafeFileError:
    return UnsafeFileError(f"not a checkpoint of a network of samples: {error}")
