"""``evodevo store``: check, mend, tidy, copy and pack a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.keep.progress import byte_progress
from evodevo.cli.keep.repair import repair
from evodevo.cli.options import DEFAULT_STORE, BlobsAddress, Json, StoreFolder
from evodevo.errors import ExitCode

if TYPE_CHECKING:
    from evodevo.storage.moving import Moved

store = typer.Typer(help="Check, mend, tidy, back up, pack and copy a store.", no_args_is_help=True)
store.command()(repair)


@store.command()
def check(store: StoreFolder = DEFAULT_STORE, json: Json = False) -> None:
    """Search for damage, and change nothing: hash every blob, compare every row with its seal, derive fronts anew.

    Exit code 7 where there is damage.
    """
    from evodevo.runs.rederive import rederived
    from evodevo.storage import Store

    with Store.open(store, "ro", create=False) as opened, byte_progress("checking") as progress:
        report = opened.check(deep=True, progress=progress)
    problems = report.problems or rederived(store)
    if json:
        rows = [{"kind": p.kind, "subject": p.subject, "message": p.message} for p in problems]
        output.document(
            "evodevo.store.check/1",
            {"blobs": report.blobs, "bytes": report.bytes, "sealed": report.sealed, "problems": rows},
        )
    else:
        for problem in problems:
            output.line(f"found   {problem.kind} {problem.subject}: {problem.message}")
    if problems:
        output.words("the store is damaged. Next: evodevo store repair")
        raise typer.Exit(ExitCode.STORE_DAMAGED)
    compared = "all rows" if report.sealed else "what can be compared: an older evodevo wrote its rows without seals"
    output.words(f"no damage in {report.blobs:,} blobs ({report.bytes:,} bytes) and {compared}.")


@store.command()
def gc(
    store: StoreFolder = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json: Json = False,
) -> None:
    """Delete the blobs that nothing holds any more: checkpoints of ended trainings, weights that were let go.

    Blobs of the last hour to which no row ever referred stay, since their rows may not be written yet; so do those
    that were let go of in the last minute. The temporary folders of workers that were killed go, too, and what killed
    packs, unpacks and copies left beside the store.
    """
    from evodevo.scratch import sweep
    from evodevo.storage import Store, moving

    with Store.open(store, create=False) as opened, byte_progress("deleting") as progress:
        report = opened.gc(dry_run=dry_run, progress=progress)
        beside = opened.folder.parent if opened.folder else None
    folders = sweep(dry_run=dry_run)
    if beside is not None:
        folders += [draft for draft in moving.sweep_drafts(beside, dry_run=dry_run) if draft not in folders]
    if json:
        data = {"dry_run": dry_run, "blobs": len(report.blobs), "temporary": report.temporary, "bytes": report.bytes}
        data["undated"] = report.undated
        output.document("evodevo.store.gc/1", data | {"folders": [str(folder) for folder in folders]})
        return
    verb = "would be deleted" if dry_run else "deleted"
    output.line(f"{len(report.blobs):,} blobs and {report.temporary:,} temporary files {verb}: {report.bytes:,} bytes")
    if report.undated:
        output.words(f"{report.undated:,} blobs that nothing holds stay: their age is not told where they are.")
    if folders:
        output.line(f"{len(folders):,} temporary folders of processes that have ended {verb}")


@store.command()
def backup(store: StoreFolder = DEFAULT_STORE, json: Json = False) -> None:
    """Copy the database, without blobs, into the folder ``backups`` of the store; it may be in use."""
    from evodevo.storage import Store

    with Store.open(store, create=False) as opened, byte_progress("copying the database") as progress:
        path = opened.backup(progress)
    if json:
        output.document("evodevo.store.backup/1", {"path": str(path)})
        return
    output.line(str(path))


@store.command()
def pack(
    file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")],
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Write all that a store holds into one file, to be kept or sent; the store may be in use."""
    from evodevo.storage import moving

    with byte_progress("packing") as progress:
        moved = moving.pack(store, file, progress)
    _made("pack", moved, json=json)


@store.command()
def unpack(
    file: Annotated[Path, typer.Argument(help="A pack.")],
    folder: Annotated[Path, typer.Argument(help="Folder of the new store; it must not exist, or be empty.")],
    json: Json = False,
) -> None:
    """Make a store of a pack. Every byte and row is checked before the folder appears."""
    from evodevo.storage import moving

    with byte_progress("unpacking") as progress:
        moved = moving.unpack(file, folder, progress)
    _made("unpack", moved, json=json)


@store.command()
def copy(
    source: Annotated[str, typer.Argument(help="Folder of a store, or postgresql://...; it may be in use.")],
    target: Annotated[str, typer.Argument(help="The same of the new store, which must not exist, or be empty.")],
    blobs: BlobsAddress = None,
    json: Json = False,
) -> None:
    """Copy all that a store holds into a new store. Every byte and row is checked before the store appears.

    Without --blobs, a new folder has the blobs in it, wherever those of the source are.
    """
    from evodevo.storage import moving
    from evodevo.storage.addresses import place

    with byte_progress("copying") as progress:
        moved = moving.copy(place(source), place(target), progress, blobs=blobs)
    _made("copy", moved, json=json)


def _made(verb: str, moved: Moved, *, json: bool) -> None:
    data = {"path": str(moved.path), "blobs": moved.blobs, "bytes": moved.bytes}
    if json:
        output.document(f"evodevo.store.{verb}/1", data)
        return
    output.line(f"{moved.path}   {moved.blobs:,} blobs, {moved.bytes:,} bytes")
