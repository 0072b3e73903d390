"""The motifs of a recorded search: of its last population, beside its first generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.motifs.count import MotifRecord, connection_counts, motif_record
from evodevo.backbone.motifs.rows import CLASS_HEADINGS, SHARING_HEADINGS, class_rows, sharing_rows
from evodevo.runs.archive import Run


@dataclass(frozen=True)
class SearchMotifs:
    """Motifs of a search.

    Attributes:
        generation: Generation whose population is described, from 0.
        record: Its motifs.
        connections: Generation -> mean number of connections per genome of its population, by kind.
    """

    generation: int
    record: MotifRecord
    connections: Mapping[int, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        """The fields by name, JSON-able."""
        rows = [{"generation": generation, **counts} for generation, counts in self.connections.items()]
        return {"generation": self.generation, **self.record.to_json(), "connections": rows}

    def tables(self, most: int) -> list[tuple[Sequence[str], list[list[str]]]]:
        """(headings, rows) for people: class motifs, then sharing motifs, at most ``most`` rows each."""
        classes, sharing = class_rows(self.record.classes[:most]), sharing_rows(self.record.sharing[:most])
        tables: list[tuple[Sequence[str], list[list[str]]]] = [(CLASS_HEADINGS, classes), (SHARING_HEADINGS, sharing)]
        return [(headings, rows) for headings, rows in tables if rows]


def search_motifs(run: Run) -> SearchMotifs | None:
    """The motifs of a search over backbones; None where no generation after the first has ended: nothing evolved."""
    plans = {generation: [one.plan for one in group] for generation, group in populations(run).items()}
    last = max(plans, default=0)
    if not last:
        return None
    first: list[tuple[LIVPlan, ...]] = [one.plan for one in run.individuals() if one.generation == 0]
    counts = {generation: connection_counts(group) for generation, group in plans.items()}
    return SearchMotifs(last, motif_record(plans[last], first), counts)


def populations(run: Run) -> dict[int, list[Any]]:
    """Generation that has ended -> the individuals that lived then; where that was not recorded, those born in it."""
    individuals = {one.id: one for one in run.individuals()}
    found = {}
    for row in run.generations():
        generation = row["generation"]
        alive = [individuals[one] for one in row.get("population", []) if one in individuals]
        born = [one for one in individuals.values() if one.generation == generation]
        if alive or born:
            found[generation] = alive or born
    return dict(sorted(found.items()))
