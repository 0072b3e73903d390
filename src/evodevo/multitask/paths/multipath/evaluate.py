"""Multipath models at work: frozen paths from the pool, connectors and router that learn, representations on disk, and
the reader that hands out kept representations of samples, or batches of the samples themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path as Folder
from typing import Any

import numpy as np
import torch
from torch import nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples, Reader
from evodevo.multitask.paths.frozen import Inputs
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.paths.multipath.cache import PathCache, rows_key
from evodevo.multitask.paths.multipath.model import Multipath, build_component
from evodevo.multitask.paths.multipath.rows import CachedRows, Places, Rows
from evodevo.multitask.paths.multipath_spec import MAIN, multipath_flops, structure_of
from evodevo.multitask.paths.weights import count_parameters, load_state
from evodevo.multitask.training.values import DataValues
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask, Split
from evodevo.tasks.text.token_cache import default_folder
from evodevo.training.precision import Precision


class BuiltMultipath(BuiltPath):
    """A multipath model on its device; see ``BuiltPath``.

    Args:
        model: Model with its weights.
        request: Request whose paths these are.
        parts: Paths of the model, the main one first.
        precision: Device and number format.
    """

    model: Multipath

    def __init__(self, model: Multipath, request: PathRequest, parts: list[FrozenPart], precision: Precision) -> None:
        own = multipath_flops(model.structure, model.classes, model.widths)
        flops = float(own + sum(part.flops for part in parts))
        entries = {str(part.path.reads): part for part in parts}  # paths that read alike share an entry

        def read(samples: PathSamples) -> dict[str, Any]:
            return {name: part.read(samples) for name, part in entries.items()}

        super().__init__(model, model.components(), flops, read, precision, model.learning_rates())
        self._request, self._parts = request, parts

    @property
    def parameters(self) -> int:
        return count_parameters(self.model)

    def reader(self, task: SampleTask, split: Split, values: DataValues, seed: int) -> Reader:
        look = super().reader(task, split, values, seed)
        folder = default_folder() if self._request.cache is None else Folder(self._request.cache)
        cache = PathCache(folder) if self._request.training.representations else None
        kept = open_reader(
            self.model, lambda places: look(places, None), cache, self._keys(task, split), task.count(split)
        )
        # Samples that random changes touch are never kept.
        return lambda places, step: kept(places) if step is None or values.identity else look(places, step)

    def _keys(self, task: SampleTask, split: Split) -> dict[str, str]:
        return {
            name: rows_key(
                sub.path.id,
                sub.components,
                part.structure,
                "logits" if number == 0 else "representation",
                f"{task.digest}/{split}",
                part.preparation,
            )
            for number, (name, sub, part) in enumerate(
                zip(self.model.names, self._request.supports, self._parts, strict=True)
            )
        }


def build_multipath(request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltMultipath:
    """The model of a request.

    Raises:
        UsageError: its first path answers another task's classes.
        NotFoundError, StoreDamagedError: a component is gone or damaged.
        DataError: a component of another structure.
    """
    structure = structure_of(request.path)
    if not request.supports or request.supports[0].path.classes != request.path.classes:
        raise UsageError(f"the main path of {request.path.id} does not answer its {request.path.classes} classes.")
    parts = [
        KINDS.get(sub.path.kind).single().freeze(sub.path, sub.components, pool, number == 0)
        for number, sub in enumerate(request.supports)
    ]
    widths = [part.width for part in parts[1:]]
    components: dict[str, nn.Module] = {}
    for role, source in request.components.items():
        components[role] = build_component(structure, role, request.path.classes, widths)
        if source.digest is not None:
            state = load_state(pool, source.digest, role, source.source)
            try:
                components[role].load_state_dict(state)
            except RuntimeError as error:
                raise DataError(f"the component {source.digest[:12]} does not fit as {role!r}: {error}") from None
    model = Multipath(
        parts[0].path,
        [part.path for part in parts[1:]],
        request.path.classes,
        widths,
        structure,
        components=components,
    )
    return BuiltMultipath(model, request, parts, precision)


CHUNK = 256
"""Number of samples per pass that fills a cache; always the same, since the batch size may change a last bit."""


class MultipathReader:
    """The reader of one set of samples for one model.

    Args:
        model: the model, whose paths are run on samples without rows.
        fetch: indices (n,) -> samples, prepared for the model's paths.
        rows: kept rows of each of the model's paths; None computes every sample anew.

    Raises:
        UsageError: a path without rows, or rows of other samples or widths.
    """

    def __init__(
        self, model: Multipath, fetch: Callable[[Places], Inputs], rows: Mapping[str, CachedRows] | None = None
    ) -> None:
        self.model = model
        self.fetch = fetch
        self.rows = None if rows is None else dict(rows)
        if rows is None:
            return
        if {name: cached.width for name, cached in rows.items()} != widths_of(model):
            raise UsageError("rows are kept for every path of the model, as wide as what it represents.")
        if len({cached.count for cached in rows.values()}) > 1:
            raise UsageError("rows of all paths are of the same samples.")

    def __call__(self, places: Places) -> Inputs:
        """Input of the model for these samples (n,), on its device."""
        if self.rows is None:
            return self.fetch(places)
        for block in self.rows[MAIN].blocks_of(places):
            lacking = [name for name, rows in self.rows.items() if not rows.has(block)]
            if lacking:
                self._fill(block, lacking)
        like = next(self.model.parameters(), torch.empty(0))
        return {name: torch.from_numpy(rows.take(places)).to(like.device) for name, rows in self.rows.items()}

    def _fill(self, block: int, names: list[str]) -> None:
        """Ask these paths about all samples of a block, each of which is prepared once."""
        assert self.rows is not None
        parts: dict[str, list[Rows]] = {name: [] for name in names}
        samples = self.rows[MAIN].samples_of(block)
        for begin in range(0, len(samples), CHUNK):
            inputs = self.fetch(samples[begin : begin + CHUNK])
            for name in names:
                values = self.model.represent_path(name, inputs)
                wide = values.float() if values.dtype == torch.bfloat16 else values  # numpy has no bfloat16
                parts[name].append(wide.cpu().numpy())
        for name in names:
            self.rows[name].put(block, np.concatenate(parts[name]))


def widths_of(model: Multipath) -> dict[str, int]:
    """Name of a path -> numbers of what it represents; logits of the main one."""
    return dict(zip(model.names, (model.classes, *model.widths), strict=True))


def open_reader(
    model: Multipath,
    fetch: Callable[[Places], Inputs],
    cache: PathCache | None,
    keys: Mapping[str, str],
    count: int,
) -> MultipathReader:
    """A reader with a cache where one may be used.

    Args:
        model: see ``MultipathReader``.
        fetch: see ``MultipathReader``.
        cache: None keeps nothing.
        keys: name of a path -> ``paths.multipath.cache.rows_key``.
        count: samples of the set.

    Raises:
        UsageError: a path without a key.
    """
    if cache is None:
        return MultipathReader(model, fetch)
    widths = widths_of(model)
    if set(keys) != set(widths):
        raise UsageError(f"a cache needs a key for each of {', '.join(widths)}; got {', '.join(keys) or 'none'}.")
    rows = {name: cache.rows(keys[name], count, width) for name, width in widths.items()}
    return MultipathReader(model, fetch, rows)
