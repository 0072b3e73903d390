"""The reader of a multipath model: kept representations of samples, or batches of the samples themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch

from evodevo.errors import UsageError
from evodevo.multitask.paths.frozen import Inputs
from evodevo.multitask.paths.multipath.cache import PathCache
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.multipath.rows import CachedRows, Places, Rows
from evodevo.multitask.paths.multipath_spec import MAIN

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
