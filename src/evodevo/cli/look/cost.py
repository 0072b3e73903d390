"""``evodevo cost``: the cost of an architecture, without building it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.architectures import read_architecture
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder


class Convention(StrEnum):
    """Convention of counting; see ``Cost``."""

    star = "star"
    actual = "actual"


class PassMode(StrEnum):
    """The pass to count."""

    prefill = "prefill"
    decode = "decode"
    train = "train"


def cost(
    architecture: Annotated[
        str,
        typer.Argument(
            metavar="ARCHITECTURE",
            help="A genome (11111 91111 …; T4 … | tr mlp; k3 … | mlp lstm), a named backbone (transformer++), a file "
            "with a genome, an individual (a beginning of its id), or last.",
        ),
    ],
    depth: Annotated[
        int | None, typer.Option(help="LIVs of a backbone; a genome is stacked or trimmed.  [default: its own, or 24]")
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Channels of the residual stream.  [default: the individual's, or 768]")
    ] = None,
    head_size: Annotated[int | None, typer.Option(help="Channels per head; chosen by the width if left out.")] = None,
    length: Annotated[int, typer.Option(help="Tokens in the context.")] = 4096,
    batch: Annotated[int, typer.Option(help="Sequences.")] = 1,
    mode: Annotated[PassMode, typer.Option(help="Kind of pass for FLOPs and bytes read.")] = PassMode.prefill,
    convention: Annotated[
        Convention, typer.Option(help="Convention: the paper's count, or every byte.")
    ] = Convention.star,
    vocabulary: Annotated[int, typer.Option(help="Tokens, for embedding and head.")] = 0,
    tied: Annotated[bool, typer.Option("--tied/--untied", help="Whether the head is the embedding.")] = True,
    element_bytes: Annotated[int | None, typer.Option(help="Bytes per number.  [default: star 2, actual 4]")] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show the cost of an architecture: parameters, cache, FLOPs, bytes read. Nothing is built.

    An H-Model is written as in "T4 a1 r1 sum dense | tr tr mlp", a zoo as in "k3 predictor | mlp lstm cnn"; their
    cost excludes inputs and outputs, and the encoders and the fusion of a zoo. With --depth a backbone is stacked or
    trimmed to whole copies of its motif, the shortest beginning whose copies are all of it.
    """
    from evodevo.backbone.space import BackboneSpace

    space, genome, scaling = read_architecture(architecture, depth, width, head_size, store)
    if not isinstance(space, BackboneSpace):
        _networks(space, genome, (length, batch, mode), json)
        return
    backbone, width = genome, space.settings.dimensions.width
    if scaling and not json:
        output.words(f"{scaling}.")
    record = space.cost(
        backbone,
        length=length,
        batch=batch,
        mode=mode.value,
        convention=convention.value,
        vocabulary=vocabulary,
        tied=tied,
        element_bytes=element_bytes,
    )
    if json:
        given = {
            "genome": space.print(backbone),
            "depth": len(backbone),
            "width": width,
            "length": length,
            "batch": batch,
            "mode": mode.value,
            "convention": convention.value,
            "vocabulary": vocabulary,
            "scaling": scaling or None,
        }
        first = {"parameters": record.parameters, "cache_bytes": record.cache_bytes}
        output.document("evodevo.cost/1", {**first, **record.to_json(), **given})
        return
    rows = [
        ("parameters", f"{record.parameters:,}", "without embedding and head"),
        ("embedding", f"{record.embedding_parameters:,}", f"{vocabulary:,} tokens, {'tied' if tied else 'untied'}"),
        ("cache", f"{record.cache_bytes:,}", f"bytes after {length:,} tokens, batch {batch:,}"),
        ("FLOPs", f"{record.flops:,}", f"of one {mode.value} pass"),
        ("executed FLOPs", f"{record.executed_flops:,}", "with masked and padded work"),
        ("bytes read", f"{record.bytes_read:,}", f"by that pass, convention {convention.value}"),
    ]
    output.table(("cost", "value", "meaning"), rows, right=("value",))


def _networks(space: Any, genome: Any, given: tuple[int, int, PassMode], json: bool) -> None:
    """Print the cost of a network of samples between its inputs and its outputs."""
    length, batch, mode = given
    record = space.cost(genome, length=length, batch=batch, mode=mode.value)
    if json:
        width = space.settings.structure.width
        arguments = {"width": width, "length": length, "batch": batch, "mode": mode.value}
        output.document("evodevo.cost/1", {**record.to_json(), "genome": space.print(genome), **arguments})
        return
    executed = "with masked and padded work, without modules that are not chosen"
    rows = [
        ("parameters", f"{record.parameters:,}", "without inputs and outputs"),
        ("FLOPs", f"{record.flops:,}", f"of one {mode.value} pass over {length:,} positions, every layer run"),
        ("executed FLOPs", f"{record.executed_flops:,}", executed),
        ("bytes read", f"{record.bytes_read:,}", "by that pass"),
    ]
    output.table(("cost", "value", "meaning"), rows, right=("value",))
