"""``evodevo cost``: the cost of an architecture, without building it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.options import Json
from evodevo.errors import GenomeError

if TYPE_CHECKING:
    from evodevo.backbone.genome import BackboneGenome
    from evodevo.backbone.space import BackboneSpace
    from evodevo.operators.cost import Cost

DEFAULT_DEPTH = 24
_ITERATIONS = re.compile(r"[^|]*\bT[0-9]", re.ASCII)
_SIX_INTEGERS = re.compile(r"\s*(?:[0-9]{6}|[0-9]{1,6}(?:\.[0-9]{1,6}){5})(?![0-9.])", re.ASCII)


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
    genome: Annotated[
        str,
        typer.Argument(
            help="A genome (11111 91111 …; T4 … | tr mlp; k3 … | mlp lstm) or a named backbone (transformer++)."
        ),
    ],
    depth: Annotated[int | None, typer.Option(help="LIVs of a named backbone.  [default: 24]")] = None,
    width: Annotated[int, typer.Option(help="Channels of the residual stream.")] = 768,
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
    json: Json = False,
) -> None:
    """Show the cost of an architecture: parameters, cache, FLOPs, bytes read. Nothing is built.

    An H-Model is written as in "T4 a1 r1 sum dense | tr tr mlp", a zoo as in "k3 predictor | mlp lstm cnn"; their
    cost excludes inputs and outputs, and the encoders and the fusion of a zoo.
    """
    if "|" in genome:
        ask = _h_model if _ITERATIONS.match(genome) else _zoo
        _networks(*ask(genome, width, length, batch, mode), (width, length, batch, mode), json)
        return
    space, backbone = _read(genome, depth, width, head_size)
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


def _h_model(text: str, width: int, length: int, batch: int, mode: PassMode) -> tuple[str, Cost]:
    from evodevo.h_model.space import HModelSpace
    from evodevo.h_model.space_settings import HModelSpaceSettings
    from evodevo.settings import validate

    values = {"structure": {"width": width}, "hidden_range": [1, 64], "iterations_range": [1, 256]}
    space = HModelSpace(validate(HModelSpaceSettings, values, what="cost"))
    genome = space.parse(text)
    return space.print(genome), space.cost(genome, length=length, batch=batch, mode=mode.value)


def _zoo(text: str, width: int, length: int, batch: int, mode: PassMode) -> tuple[str, Cost]:
    from evodevo.module_zoo.space import any_zoo

    space = any_zoo(width)
    genome = space.parse(text)
    return space.print(genome), space.cost(genome, length=length, batch=batch, mode=mode.value)


def _networks(genome: str, record: Cost, given: tuple[int, int, int, PassMode], json: bool) -> None:
    """Print the cost of a network of samples between its inputs and its outputs."""
    width, length, batch, mode = given
    if json:
        arguments = {"genome": genome, "width": width, "length": length, "batch": batch, "mode": mode.value}
        output.document("evodevo.cost/1", {**record.to_json(), **arguments})
        return
    executed = "with masked and padded work, without modules that are not chosen"
    rows = [
        ("parameters", f"{record.parameters:,}", "without inputs and outputs"),
        ("FLOPs", f"{record.flops:,}", f"of one {mode.value} pass over {length:,} positions, every layer run"),
        ("executed FLOPs", f"{record.executed_flops:,}", executed),
        ("bytes read", f"{record.bytes_read:,}", "by that pass"),
    ]
    output.table(("cost", "value", "meaning"), rows, right=("value",))


def _read(text: str, depth: int | None, width: int, head_size: int | None) -> tuple[BackboneSpace, BackboneGenome]:
    from evodevo.backbone.named import NAMED_BACKBONES
    from evodevo.backbone.space import BackboneSettings, BackboneSpace
    from evodevo.errors import unknown_name
    from evodevo.settings import validate

    values = {
        "depth": DEFAULT_DEPTH if depth is None else depth,
        "residuals": _SIX_INTEGERS.match(text) is not None,
        "dimensions": {"width": width, "head_size": head_size},
    }
    space = BackboneSpace(validate(BackboneSettings, values, what="cost"))
    if not text.strip()[:1].isdigit() and text.strip().partition("@")[0] not in NAMED_BACKBONES:
        raise unknown_name("backbone", text.strip()[:80], NAMED_BACKBONES)
    backbone = space.parse(text)
    if depth is not None and len(backbone) != depth:
        raise GenomeError(f"the genome has {len(backbone)} LIVs and --depth is {depth}; leave --depth out.")
    return space, backbone
