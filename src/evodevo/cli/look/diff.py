"""``evodevo diff``: differences of two genomes, and of their scores."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evodevo.cli import output
from evodevo.cli.listing import print_individuals, record
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual

NOTHING = "–"


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="Beginning of an individual's id.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Beginning of another individual's id.")],
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Compare two individuals, LIV by LIV."""
    from evodevo.backbone.space import BackboneSpace
    from evodevo.errors import UsageError
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        a, b = archive.individual(first), archive.individual(second)
        if _space(a) != _space(b):
            raise UsageError(f"{a.id} and {b.id} are genomes of different spaces; nothing can be compared.")
        backbones = isinstance(a.run.space, BackboneSpace)
        distance = a.run.space.distance(a.genome, b.genome)
        changes = _differences(a, b) if backbones else _settings(a, b)
        if json:
            data = {"a": record(a), "b": record(b), "distance": distance, "differences": changes}
            output.document("evodevo.diff/1", data)
            return
        print_individuals([a, b], a.run.goals)
        if not backbones:
            output.line(f"{len(changes)} settings differ (distance {distance:.3f})")
            output.table(("setting", a.name, b.name), [(c["setting"], c["a"], c["b"]) for c in changes])
            return
        output.line(f"{len(changes)} of {max(len(a.genome), len(b.genome))} LIVs differ (distance {distance:.3f})")
        rows = [(c["position"], c["a"] or NOTHING, c["b"] or NOTHING, ", ".join(c["integers"])) for c in changes]
        if rows:
            output.table(("LIV", a.name, b.name, "what differs"), rows, right=("LIV",))


def _space(individual: Individual) -> tuple[str, Any]:
    """Key of comparable genomes: the space, and for backbones the genes that it allows."""
    return individual.run.space.name, getattr(individual.run.space, "genes", None)


def _settings(a: Individual, b: Individual) -> list[dict[str, Any]]:
    """The settings of the envelopes whose values differ."""
    left, right = dict(_leaves(a.row.genome_envelope["genes"])), dict(_leaves(b.row.genome_envelope["genes"]))
    places = dict.fromkeys([*left, *right])
    return [
        {"setting": place, "a": left.get(place, NOTHING), "b": right.get(place, NOTHING)}
        for place in places
        if left.get(place, NOTHING) != right.get(place, NOTHING)
    ]


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every leaf of nested data."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{place}.{key}" if place else str(key))
    else:
        yield place or "genes", value


def _differences(a: Individual, b: Individual) -> list[dict[str, Any]]:
    from evodevo.backbone.genome import PLACES
    from evodevo.operators.genome_text import print_segments

    differences = []
    for place, (left, right) in enumerate(zip_longest(a.genome, b.genome)):
        if left == right:
            continue
        shown = []
        for individual, segment in ((a, left), (b, right)):
            name = individual.plan[place].row.name if segment is not None else ""
            shown.append(f"{name} {print_segments([segment])}" if segment is not None else None)
        both = left is not None and right is not None
        integers = [PLACES[n] for n, (x, y) in enumerate(zip(left, right, strict=True)) if x != y] if both else ["all"]
        differences.append({"position": place + 1, "a": shown[0], "b": shown[1], "integers": integers})
    return differences
