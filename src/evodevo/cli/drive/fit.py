"""``evodevo fit``: the best model of a user's rows within a time, with a leaderboard."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.options import Json
from evodevo.errors import UsageError

if TYPE_CHECKING:
    from evodevo.estimators.automatic.leaderboard import Leaderboard


NO_TOWER = "none"
"""Word of ``--tower`` for no tower at all."""


class TargetKind(StrEnum):
    """What the numbers of a label are."""

    CLASS = "class"
    QUANTITY = "quantity"


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A .csv, .jsonl, .parquet or .npz file, or a folder of images, sounds or texts, one folder a class.",
        ),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="COLUMN", help="Label column; repeat it for columns of yes and no."),
    ] = None,
    time_limit: Annotated[str, typer.Option(metavar="TIME", help="Time after the data are read: 90s, 5m, 1h.")] = "5m",
    test: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Rows with labels that decide nothing: scores at the end.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Folder for the model: missing, empty, or an earlier one. After a kill or Ctrl-C the same command "
            "goes on with what is in it.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the model as a readable program that needs no evodevo."),
    ] = None,
    kind: Annotated[
        TargetKind | None,
        typer.Option(
            help="Whether a column of numbers holds classes or a quantity.  [default: a quantity where more than 24 "
            "differ]"
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="accuracy, balanced_accuracy; of several labels micro_f1; of a quantity r2, rmse, mae.  "
            "[default: the first]"
        ),
    ] = None,
    separator: Annotated[
        str, typer.Option(metavar="TEXT", help="Separator of several labels in one cell, such as '|'.")
    ] = "",
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of groups that no split may divide, as the author.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column that is no input.")] = None,
    networks: Annotated[bool, typer.Option(help="Whether networks take part.")] = True,
    tower: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="Pretrained text or vision model on this machine, a folder or a name in the Hugging Face cache, whose "
            "features linear models read; or none.  [default: builtin:characters, in the package, where there are "
            "images]",
        ),
    ] = None,
    image_size: Annotated[
        int, typer.Option(metavar="PIXELS", help="Largest height and width at which images are read, 1 to 1024.")
    ] = 64,
    skip_corrupt: Annotated[
        bool, typer.Option("--skip-corrupt", help="Leave out rows whose image cannot be read, also of --test.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of splits, weights and order.")] = 0,
    json: Json = False,
) -> None:
    """Find the best model of your own table, images or texts: plain ones, networks, and their ensemble."""
    from evodevo.cli.drive.fit_progress import choose
    from evodevo.estimators.automatic import keeping
    from evodevo.estimators.automatic.fit import USUAL_LABEL, seconds_of
    from evodevo.estimators.automatic.fit import fit as find
    from evodevo.estimators.automatic.source.export import check
    from evodevo.estimators.automatic.unfinished.folder import UNFINISHED
    from evodevo.tasks.rows import sources
    from evodevo.tasks.rows.unreadable import without_unreadable

    names: Any = label[0] if label and len(label) == 1 else tuple(label or (USUAL_LABEL,))
    # All that can be wrong is found before the work, not after it.
    seconds_of(time_limit)
    if to is not None:
        keeping.check_target(to)
    if source is not None:
        check("source", source)
    named = names if isinstance(names, tuple) else (names,)
    tested = None if test is None else sources.read(test, named)
    if tested is not None and skip_corrupt:
        tested, lost = without_unreadable(tested, (*named, *(ignore or ())))
        if lost and not json:
            output.words(f"{test}: {len(lost):,} files cannot be read and are left out ({', '.join(lost[:5])}).")
    with choose(json=json) as view:
        model = find(
            data,
            names,
            time_limit=time_limit,
            kind=None if kind is None else kind.value,
            metric=metric,
            separator=separator,
            group=group,
            ignore=tuple(ignore or ()),
            networks=networks,
            towers=_towers(tower),
            image_size=image_size,
            skip_corrupt=skip_corrupt,
            seed=seed,
            to=to,
            listener=view.handle,
        )
    board = model.leaderboard(tested)
    if source is not None:
        model.export("source", source)
    if json:
        where = None if to is None else str(to.absolute())
        output.document("evodevo.fit/1", {**board.to_json(), "data": dict(model.about), "folder": where})
        return
    _show(board)
    if to is not None:
        if (to / UNFINISHED).exists():
            output.words("interrupted: the same command goes on from here, in the time that is left of its limit")
        output.words(f"written to {to}; predictions: evodevo predict {to} --data FILE")
    if source is not None:
        output.words(f"written to {source}, and verified; predictions: python {source}/predict.py FILE.csv")


def _towers(given: list[str] | None) -> tuple[str, ...] | None:
    """Towers as ``evodevo.fit`` takes them."""
    if given and NO_TOWER in given:
        if len(given) > 1:
            raise UsageError(f"--tower {NO_TOWER} is given beside another one; leave one of them out.")
        return ()
    return tuple(given) if given else None


def _show(board: Leaderboard) -> None:
    heads, table = board.cells()
    output.table(heads, table, right=heads[2:])
    for reason in board.left_out:
        output.words(f"left out: {reason}")
    output.line(board.verdict)
