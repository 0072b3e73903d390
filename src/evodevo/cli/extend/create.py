"""``evodevo extend create``: create a system and its root."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document
from evodevo.cli.options import DEFAULT_STORE, Assignments, BlobsAddress, ConfigFile, StoreFolder
from evodevo.cli.overrides import overrides
from evodevo.cli.running import keep_blobs_at, store_option
from evodevo.errors import UsageError


def create(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Its name, unique in the store.")],
    root: Annotated[
        str | None,
        typer.Option(
            metavar="ROOT",
            help="builtin:characters or builtin:characters_tiny (in the package), random_init, pretrain:NAME (of a"
            " task), checkpoint:FOLDER (a ViT), checkpoint:FILE.safetensors (a root that you trained), or, beside"
            " another one, joint (trained by the system's tasks together) or joint:NAME,NAME.  [default:"
            " builtin:characters for ConvSmall, builtin:characters_tiny for ConvTiny, else random_init]",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Data of the task that the root is pretrained on.  [default: digits]")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Class of agents: ConvTiny, ConvSmall, ConvBase, VitT3, Vit, ...  [default: ConvSmall; of a joint root"
            " that of the others]",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw in the system.  [default: 0]")] = None,
    beside: Annotated[bool, typer.Option("--beside", help="Add another root to an existing system.")] = False,
    store: StoreFolder = DEFAULT_STORE,
    blobs: BlobsAddress = None,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Document = False,
) -> None:
    """Create a system with one root: the path from which all others descend.

    --set cycle.samples=8 and the like are settings of the system, --set root.structure.grid=1 those of the root.
    The root itself is created, or trained, when agents run for the first time.
    """
    changes = overrides(config, set or [], {})
    from evodevo.multitask.run import create as extending
    from evodevo.multitask.schedule import is_joint

    keep_blobs_at(store, blobs)
    if beside:
        own = changes.pop("root", {})
        if changes or seed is not None:
            given = ", ".join([*changes, *([] if seed is None else ["seed"])])
            raise UsageError(
                f"a system keeps its settings and its seed: with --beside, only root.* is set, not {given}."
            )
        made = extending.add_root(system, root=root, data=data, kind=kind, overrides=own, store=store)
    else:
        made = extending.create_system(
            system,
            root=root,
            data=data,
            kind=kind or extending.DEFAULT_CLASS,
            seed=seed or 0,
            overrides=changes,
            store=store,
        )
    if json:
        facts = {
            "system": made.system,
            "root": made.agent.name,
            "class": made.agent.kind,
            "samples": dict(made.samples),
        }
        output.document("evodevo.extend.create/1", facts)
        return
    output.line(f"system {made.system}   root {made.agent.name}")
    taken = made.agent.settings["options"].get("checkpoint")
    if root is None and taken:
        output.words(
            f"Its root is {taken}, for images of few pixels, since no other was named: it has learned characters and"
            " clothes. --root random_init begins at random; for large images: --class Vit --root checkpoint:FOLDER."
        )
    following = "run {}" if is_joint(made.agent) else "add {} TASK --data PATH"
    output.words(f"Next: evodevo extend {following.format(made.system)}{store_option(store)}")
