"""``evodevo.fit``: rows, a label and a time in; the best model on held out samples out, with what every other had."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.estimators.automatic import ensemble, keeping
from evodevo.estimators.automatic.candidates.base import LabelledSamples, Limit, ProbabilityModel
from evodevo.estimators.automatic.candidates.mean import MeanPredictor
from evodevo.estimators.automatic.features.package_root import USUAL, RootReading
from evodevo.estimators.automatic.features.towers import TowerReading
from evodevo.estimators.automatic.leaderboard import Row
from evodevo.estimators.automatic.model import PROBES, FittedModel
from evodevo.estimators.automatic.progress import shown
from evodevo.estimators.automatic.scores import further, log_loss, metric_of
from evodevo.estimators.automatic.search import FitSearch, Listener, rank
from evodevo.estimators.automatic.splits import (
    EVERY_FOLD_BELOW,
    EVERY_FOLD_OF_IMAGES_BELOW,
    fingerprints,
    folds,
    strata,
)
from evodevo.estimators.automatic.unfinished.begun import BegunFit
from evodevo.estimators.automatic.unfinished.folder import opened
from evodevo.estimators.automatic.unfinished.record import FitRecord
from evodevo.multitask.roots.files import BUILTIN
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.columns import number
from evodevo.tasks.rows.samples import LARGEST_SIDE, RowReading, Samples
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.rows.targets import Targets, known

ENSEMBLE = "weighted ensemble"
USUAL_LABEL = "label"
"""Label column where none is named."""
FEWEST = 10
"""Smallest number of rows with a label."""
_NAMED = 5
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str | float) -> float:
    """A time in seconds from a number of seconds or a text such as 90s, 5m or 1h.

    Raises:
        UsageError: It is no time above 0.
    """
    if isinstance(text, str):
        found = _TIME.fullmatch(text.strip().lower())
        value = float(found[1]) * _UNITS[found[2]] if found else math.nan
    else:
        value = float(text)
    if not 0 < value < math.inf:
        raise UsageError(f"the time limit is {text!r}; give seconds, or a time such as 90s, 5m or 1h.")
    return value


def fit(
    data: Any,
    label: str | Sequence[str] = USUAL_LABEL,
    *,
    time_limit: str | float = "5m",
    kind: Literal["class", "quantity"] | None = None,
    metric: str | None = None,
    separator: str = "",
    group: str | None = None,
    ignore: Sequence[str] = (),
    networks: bool = True,
    towers: str | Path | Sequence[str | Path] | None = None,
    image_size: int = LARGEST_SIDE,
    skip_corrupt: bool = False,
    seed: int = 0,
    to: str | Path | None = None,
    progress: bool | None = None,
    listener: Listener | None = None,
) -> FittedModel:
    """Find the best model of a user's rows.

    Plain models come first: the most frequent class, logistic regression, nearest neighbours, boosted and random
    trees; of a quantity the mean, ridge regression, neighbours and trees. What time they leave goes to a race of
    networks: encoders with a head, then with modules of the zoo. A weighted ensemble of all is one more candidate.
    Samples that were held out decide; below 3,000 rows (500 with images) each is held out in turn, in five folds, and
    equal rows are always on one side.

    Args:
        data: A .csv, .jsonl, .parquet or .npz file; a folder with one folder of images or .txt files per class; a data
            frame; or a mapping of columns.
        label: Label column; several names are columns of yes and no. Of a folder, the name for its classes.
        time_limit: Time for everything but the reading of the data: seconds, or 90s, 5m, 1h. What has begun and cannot
            be ended in the middle, as a logistic regression, may end later.
        kind: Whether a column of numbers holds classes or a quantity; None decides by their number, see
            ``tasks.rows.targets.MOST_NUMBERS``. The names of folders are classes.
        metric: accuracy (default) or balanced_accuracy; of several labels micro_f1; of a quantity r2 (default), rmse or
            mae.
        separator: Separator of several labels in one cell.
        group: Column of groups that no split may divide, such as the author; it is no input.
        ignore: Columns that are no inputs.
        networks: Whether networks take part.
        towers: Pretrained text and vision models on this machine: folders of ``save_pretrained``, or names in the local
            Hugging Face cache, or ``builtin:characters``, the root of the package. None is that root where the data
            have images, and no tower where they have none; ``()`` is no tower. Linear models on their features of the
            texts or images take part, where the plain models' time is enough to read all samples; the towers do not
            learn. A model that reads through a tower of the user needs its files as long as it is used.
        image_size: Largest height and width of an image in pixels, 1 to 1,024; larger ones are made smaller. Networks
            take longer with larger images.
        skip_corrupt: Whether rows whose image cannot be read are left out, and counted; else one ends the fit.
        seed: Seed of splits, weights and order. The clock decides as well how long networks are trained, so that two
            runs may differ.
        to: Folder for the model: missing, empty, or with an earlier model, which is replaced. What is trained is kept
            there as it comes: after a kill or Ctrl-C the same call goes on, in the time that is left of the limit. When
            the fit has ended the model alone is in it.
        progress: Whether a bar with the best candidate and the time is shown; None shows it on a terminal and in a
            notebook, where no listener is given.
        listener: Receives progress; see ``evodevo.estimators.automatic.search``.

    Raises:
        UsageError: A setting, column or tower that cannot be used; or the folder holds other files, or an unfinished
            fit of other data or settings.
        DataError: Data or a tower's files that cannot be read, or data with too few labelled rows.
        NotFoundError: There is no such tower.
        UnsafeFileError: A tower's weights are a pickle only.
        MissingExtraError: A tower needs transformers.
        RunOwnedError: Another process is fitting into the folder.
        DiskFullError: No space left in the folder.
    """
    seconds = seconds_of(time_limit)
    folder = None if to is None else Path(to)
    if folder is not None:
        keeping.check_target(folder)
    named = (label,) if isinstance(label, str) else tuple(label)
    rows = sources.read(data, named)
    if named == (USUAL_LABEL,) and USUAL_LABEL not in rows.names:
        raise UsageError(
            f"name the label column (--label COLUMN, or label=): {rows.source} has none that is called {USUAL_LABEL!r}."
            f" There: {quoted_list(rows.names[:16])}."
        )
    _check_columns(rows, (*ignore, *((group,) if group else ())))
    if kind is None and isinstance(data, (str, Path)) and Path(data).is_dir():
        kind = "class"  # one folder per class, whatever their names are
    targets = Targets.of(rows, label, separator, kind)
    chosen = metric_of(metric, targets.kind)
    answers = targets.read(rows)
    labelled = np.flatnonzero(known(answers))
    _check_count(rows.source, len(labelled), "with a label")
    taken = rows.take(labelled) if len(labelled) < rows.count else rows
    ignored = (*ignore, *((group,) if group else ()))
    with shown(progress, listener) as receiver:
        listen = receiver or _silent
        reading = RowReading.of(
            taken, targets.columns, ignore=ignored, image_size=image_size, skip_corrupt=skip_corrupt
        )
        lost: list[str] | None = [] if skip_corrupt else None
        samples = reading.read(taken, lost=lost, progress=_told(listen))
        answers = answers[labelled]
        about = _about(rows, reading, targets, answers)
        if lost:
            kept = np.flatnonzero(~taken.with_cells(lost, [column.name for column in reading.of_kind("image")]))
            _check_count(rows.source, len(kept), "with a label whose images can be read")
            taken, samples, answers = taken.take(kept), samples.take(kept), answers[kept]
            about |= {"unreadable": len(lost), "unreadable_names": lost[:_NAMED]}
        began = time.monotonic()
        groups = None if group is None else taken.cells[group]
        if towers is None:
            towers = (USUAL,) if samples.images else ()
        read = _towers((towers,) if isinstance(towers, (str, Path)) else tuple(towers), samples)
        lesson = LabelledSamples(samples, answers, targets.kind, len(targets.names), reading.levels, seed, read)
        below = EVERY_FOLD_OF_IMAGES_BELOW if samples.images else EVERY_FOLD_BELOW
        held = folds(strata(answers), fingerprints(samples, answers, groups), seed, below)
        settings = {
            "label": list(named),
            "kind": targets.kind,
            "metric": chosen.name,
            "separator": separator,
            "group": group,
            "ignore": list(ignore),
            "networks": networks,
            "seed": seed,
            **({"image_size": image_size} if image_size != LARGEST_SIDE else {}),
            **({"towers": [tower.identity for tower in read.values()]} if read else {}),
        }

        def begun() -> BegunFit:
            return BegunFit.of(settings, reading, samples, answers, groups)

        with _recorded(folder, begun, began) as record:
            listen("plan", {**about, "folds": len(held), "seconds": seconds, "used": record.used, "kept": record.count})
            search = FitSearch(lesson, held, chosen, Limit(began - record.used + seconds), listen, record)
            search.run(networks=networks)
            model = _chosen(search, reading, targets, about)
            model = replace(model, probes=taken.take(np.arange(min(taken.count, PROBES))))
            if folder is not None:
                model.save(folder)
                if not search.limit.stopped:
                    record.end()
    return model


@contextmanager
def _recorded(folder: Path | None, begun: Callable[[], BegunFit], began: float) -> Iterator[FitRecord]:
    if folder is None:
        yield FitRecord()
        return
    with opened(folder, begun(), began) as record:
        yield record


def _chosen(search: FitSearch, reading: RowReading, targets: Targets, about: dict[str, Any]) -> FittedModel:
    chances: dict[str, NDArray[np.float64]] = {one.name: one.chances for one in search.trained}
    models: dict[str, ProbabilityModel] = {one.name: one.final for one in search.trained if one.final is not None}
    rows: dict[str, tuple[str, float, str, dict[str, float]]] = {
        one.name: (one.kind, one.seconds, one.note, {}) for one in search.trained
    }
    weights = ensemble.greedy(chances, search.answers, search.metric.loss)
    if len(weights) > 1:
        order = sorted(weights, key=lambda name: (-weights[name], name))
        models[ENSEMBLE] = MeanPredictor([models[name] for name in order], [weights[name] for name in order])
        chances[ENSEMBLE] = np.asarray(sum(weights[name] * chances[name] for name in order))
        seconds = sum(one.seconds for one in search.trained if one.name in weights)
        rows[ENSEMBLE] = ("ensemble", seconds, "", {name: weights[name] for name in order})
    metric, answers, shares = search.metric, search.answers, search.shares
    order = sorted(chances, key=lambda name: (rank(metric, chances[name], answers, shares), name))
    table = []
    for name in order:
        kind, seconds, note, members = rows[name]
        decided = metric.decide(chances[name], shares)
        table.append(
            Row(
                name=name,
                kind=kind,
                score=metric.score(decided, answers),
                log_loss=None if metric.kind == "quantity" else log_loss(chances[name], answers),
                further={other.name: other.score(decided, answers) for other in further(metric)},
                seconds=seconds,
                note=note,
                members=members,
            )
        )
    return FittedModel(
        reading=reading,
        targets=targets,
        metric=metric,
        shares=shares,
        predictor=models[order[0]],
        rows=tuple(table),
        held=len(answers),
        left_out=tuple(search.left_out),
        others=models,
        about=about,
    )


def _about(rows: Rows, reading: RowReading, targets: Targets, answers: NDArray[Any]) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    for column in reading.columns:
        kinds[column.kind] = kinds.get(column.kind, 0) + 1
    different = np.unique(answers) if targets.kind == "quantity" else answers[:0]
    return {
        "source": rows.source,
        "rows": rows.count,
        "labelled": len(answers),
        "columns": kinds,
        "ignored": {column.name: column.reason for column in reading.of_kind("ignored")},
        "label": list(targets.columns),
        "classes": 0 if targets.kind == "quantity" else len(targets.names),
        "kind": targets.kind,
        "numbers": len(different),
        "numeric": not any(math.isnan(number(name)) for name in targets.names),
        "range": [float(value) for value in (different[:1].tolist() + different[-1:].tolist())],
    }


def _towers(paths: Sequence[str | Path], samples: Samples) -> dict[str, TowerReading | RootReading]:
    """The towers by the names of their folders, or by their whole paths where two folders have one name."""
    words = dict.fromkeys(map(str, paths))
    roots = {word: RootReading.of(word, samples) for word in words if word.startswith(BUILTIN)}
    found = [TowerReading.of(path, samples) for path in words if path not in roots]
    names = [tower.name for tower in found]
    return {**roots, **{tower.name if names.count(tower.name) == 1 else tower.path: tower for tower in found}}


def _told(listen: Listener) -> Callable[[int, int], None]:
    """What tells a listener how many images were read."""
    return lambda done, count: listen("reading", {"done": done, "count": count})


def _check_count(source: str, count: int, what: str) -> None:
    if count < FEWEST:
        raise DataError(f"{source} has {count} rows {what}; at least {FEWEST} are needed.")


def _check_columns(rows: Rows, names: Sequence[str]) -> None:
    for name in names:
        if name not in rows.names:
            raise rows.unknown(name)


def _silent(kind: str, facts: dict[str, Any]) -> None:
    """Listener of nobody."""
