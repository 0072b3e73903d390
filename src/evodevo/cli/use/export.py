"""``evodevo export``: write a trained path of a system as files that work without evodevo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder

if TYPE_CHECKING:
    from evodevo.storage import Store


def export(
    name: Annotated[
        str, typer.Argument(metavar="SYSTEM", help="A multitask system: its name, id, or the beginning of one.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that is missing, empty, or an earlier export.")
    ],
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Task of the exported path.")] = None,
    to: Annotated[str, typer.Option(metavar="FORMAT", help="pt2: torch.export, read by PyTorch alone.")] = "pt2",
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Agent whose path is exported.  [default: the task's best]")
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Export the path of a task; it is verified in a fresh process, and refused if its outputs differ."""
    from evodevo.errors import UsageError
    from evodevo.multitask.run.export import export_system
    from evodevo.multitask.run.predict import find_system
    from evodevo.storage import Store

    with Store.open(store, "ro", create=False) as opened:
        if find_system(opened, name) is None and _is_of_a_run(opened, name):
            raise UsageError(
                f"{name!r} is a run or an individual; only paths of multitask systems are exported so far. Use it with:"
                f" evodevo generate {name}, or evodevo predict {name}"
            )
        done = export_system(opened, name, task, target, to=to, agent=agent)
    verified = done.verified
    if json:
        files = [{"name": file, "sha256": digest} for file, digest in done.files.items()]
        output.document(
            "evodevo.export_system/1",
            {"folder": str(done.folder), "format": to, "files": files, "verified": verified.to_json()},
        )
        return
    output.line(f"written to {done.folder}: {', '.join(done.files)}, manifest.json")
    output.line(
        f"verified: a fresh process loads it without evodevo; {verified.samples} probes, largest difference of a logit"
        f" {verified.difference:.3g}"
    )
    output.words(f"how to use it: {done.folder / 'README.md'}")


def _is_of_a_run(store: Store, name: str) -> bool:
    from evodevo.errors import NotFoundError, UsageError

    try:
        return name == "last" or bool(store.find(name))
    except (NotFoundError, UsageError):
        return False
