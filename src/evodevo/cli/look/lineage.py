"""``evodevo lineage``: the ancestors of an individual."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.listing import comparable, inheritance_words, print_individuals, record
from evodevo.cli.options import DEFAULT_STORE, IndividualName, Json, StoreFolder

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual


def lineage(
    individual: IndividualName,
    depth: Annotated[int | None, typer.Option(min=1, help="Generations of ancestors; all if left out.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it into a file.")] = None,
    store: StoreFolder = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """List the ancestors of an individual, latest birth first: what was done at each birth, and what it changed."""
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        start = archive.individual(individual)
        arrows = archive.store.lineage(start.id, depth=depth)
        ids = dict.fromkeys([start.id, *(arrow.parent_id for arrow in arrows)])
        # Through the archive and not the run: parents may belong to another one.
        people = [archive.individual(identity) for identity in ids]
        people.sort(key=lambda person: person.row.created_seq, reverse=True)
        if svg is not None:
            _draw(people, svg)
        if json:
            data = {
                "individual": start.id,
                "ancestors": [record(person) for person in people],
                "arrows": [
                    {"child": arrow.child_id, "parent": arrow.parent_id, "role": arrow.role} for arrow in arrows
                ],
            }
            output.document("evodevo.lineage/1", data)
            return
        print_individuals(people, start.run.goals)
        for person in people:
            if person.parents:
                parents = [f"{identity}{_changed(archive.individual(identity), person)}" for identity in person.parents]
                words = "".join(f"; began with {sentence}" for sentence in inheritance_words(person))
                output.line(f"{person.id}  {person.operation} of {' and '.join(parents)}{words}")


def _changed(parent: Individual, child: Individual) -> str:
    """How far the child's network is from the parent's, in brackets; empty where they cannot be compared."""
    if not comparable(parent, child):
        return ""
    count = len(parent.run.slice.differences(parent, child))
    return f" ({count} {parent.run.slice.extent(parent, child)} differ)" if count else " (the same network)"


def _draw(people: list[Individual], path: Path) -> None:
    from evodevo.cli.files import write_text
    from evodevo.report.charts.lineage import LineageNode, lineage_chart

    nodes = [
        LineageNode(
            person.id, person.generation, person.parents, person.operation, "failed" if person.reason else "dominated"
        )
        for person in people
    ]
    write_text(path, lineage_chart(nodes, people[0].id))
