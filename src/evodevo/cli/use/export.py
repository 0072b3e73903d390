"""``evodevo export``: write a trained model, or a path of a system, as files that work without evodevo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder

if TYPE_CHECKING:
    from evodevo.export.folder import Export
    from evodevo.storage import Store


def export(
    name: Annotated[
        str,
        typer.Argument(
            metavar="INDIVIDUAL|SYSTEM|FOLDER",
            help="An individual of a run, or a multitask system: any unique beginning of its id, or a system's name."
            " Or the folder of evodevo fit.",
        ),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that is missing, empty, or an earlier export.")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="hf: transformers. source: one file of plain PyTorch. pt2: torch.export. onnx: ONNX Runtime."
            "  [default: source where it holds the network, else pt2; a folder of evodevo fit has source alone]",
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Of a system: task of the exported path.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a system: agent whose path is exported.  [default: the task's best]"),
    ] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Export a trained model; it is verified in a fresh process, and refused if its outputs differ."""
    from evodevo.cli.use.fitted import export_folder, is_fitted
    from evodevo.errors import UsageError

    if is_fitted(name):
        if task is not None or agent is not None:
            raise UsageError(
                f"--task and --agent name a path of a multitask system; {name!r} is the folder of a model."
            )
        _say(export_folder(Path(name), to or "source", target), "evodevo.export/1", json, "prediction")
        return
    from evodevo.multitask.run.predict import find_system
    from evodevo.runs.archive import Archive
    from evodevo.storage import Store

    with Store.open(store, "ro", create=False) as opened:
        is_system = find_system(opened, name) is not None or not _is_of_a_run(opened, name)
        if is_system:
            if not any(row.kind == "system" for row in opened.runs()):
                opened.find(name)  # says what the store holds instead
            from evodevo.multitask.run.export import export_system

            done = export_system(opened, name, task, target, to=to or "pt2", agent=agent)
    if not is_system:
        if task is not None or agent is not None:
            raise UsageError(f"--task and --agent name a path of a multitask system; {name!r} is of a run.")
        with Archive(store) as archive:
            done = archive.individual(name).export(target, to=to)
    _say(done, "evodevo.export_system/1" if is_system else "evodevo.export/1", json)


def _say(done: Export, schema: str, json: bool, number: str = "logit") -> None:
    verified, form = done.verified, done.format
    if json:
        files = [{"name": file, "sha256": digest} for file, digest in done.files.items()]
        output.document(
            schema, {"folder": str(done.folder), "format": form, "files": files, "verified": verified.to_json()}
        )
        return
    output.line(f"written to {done.folder}: {', '.join(done.files)}, manifest.json")
    alone = "a fresh process loads it without evodevo" if done.alone else "a fresh process loads it"
    output.line(
        f"verified: {alone}; {verified.samples} probes, largest difference of a {number} {verified.difference:.3g}"
    )
    output.words(f"how to use it: {done.folder / 'README.md'}")


def _is_of_a_run(store: Store, name: str) -> bool:
    from evodevo.errors import NotFoundError, UsageError

    try:
        return name == "last" or bool(store.find(name))
    except UsageError:
        return True
    except NotFoundError:
        return False
