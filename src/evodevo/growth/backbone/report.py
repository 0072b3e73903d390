"""Growing backbones as tables: what each one was, and what its growth saved."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable
from evodevo.experiments.report.parts import PagePart
from evodevo.growth.backbone.drawing import CAPTION, growth_drawing
from evodevo.growth.backbone.reach import Reached, reached
from evodevo.growth.backbone.records import events_of, race_of, started
from evodevo.growth.backbone.spec import STAGES
from evodevo.growth.report.forks import fork_table
from evodevo.growth.report.race import table_of_race
from evodevo.report.html import cut, element, section
from evodevo.report.word_tables import CaptionedDrawing, TextTable, pictures, words_table
from evodevo.runs.archive import Individual, Run

STAGE_COLUMNS = ("arm", "edits", "at", "step", "LIVs", "width", "window", "parameters", "GFLOP/step", "loss before",
                 "loss after")  # fmt: skip
REACH_COLUMNS = ("arm", "seeds", "FLOPs", "least and most", "tokens")
NEVER = "never"


class BackboneGrowthPart(PagePart):
    """The tables, where a backbone grew."""

    def section(self, run: Run, table: ComparisonTable) -> Element | None:
        content: list[Element] = []
        for title, words in self.tables(run, table).items():
            content += [element("h3", cut(title, 160)), words_table(words)]
        if content:
            grown = _first_of_each(_grown(run)).items()
            content += pictures(
                CaptionedDrawing(growth_drawing(individual), CAPTION.format(name))
                for name, individual in grown
                if events_of(individual)
            )
        return section("backbone-growth", "Growth", *content) if content else None

    def tables(self, run: Run, table: ComparisonTable) -> Mapping[str, TextTable]:
        grown = _grown(run)
        if not grown:
            return {}
        found = {"what grew": TextTable(STAGE_COLUMNS, _stages(grown), _STAGES_CAPTION, ("edits",))}
        for name, individual in _first_of_each(grown).items():
            race = _race(individual)
            if race is not None:
                found[f"race of {name}"] = race
            forks = fork_table(individual.fact.get("forks"))
            if forks is not None:
                found[f"forks of {name}"] = forks
        rates = len(run.settings.experiment.learning_rates) > 1
        rows = _reach(reached(run, table.reference), rates=rates)
        if rows:
            caption = _REACH_CAPTION.format(table.reference)
            found[f"until the loss of {table.reference}"] = TextTable(REACH_COLUMNS, rows, caption, ("least and most",))
        return found


GROWTH = BackboneGrowthPart()
_STAGES_CAPTION = (
    "The first seed of each arm. Losses in nats, on windows of training text, around the edits; an edit that preserves "
    "answers changes none."
)
_REACH_CAPTION = (
    "FLOPs until the validation loss is that of {0} at its end, as a share of the FLOPs of {0}, and tokens likewise; "
    "mean over the seeds of those that came there. A curve is read before its learning rate has fallen."
)


def _stages(grown: list[Any]) -> list[tuple[str, ...]]:
    return [
        (name, *_cells(stage))
        for name, individual in _first_of_each(grown).items()
        for stage in individual.fact[STAGES]
    ]


def _race(individual: Individual) -> TextTable | None:
    """The race at the start of a training; None where there was none."""
    race = race_of(individual)
    if race is None or race.instead:
        return None

    def words(genome: str) -> str:
        start = started(individual.genome.network.structure, genome)
        return f"{genome} ({', '.join(plan.row.name for plan in start.plans())})"

    heats = [
        {
            **heat,
            "left_out": [words(name) for name in heat["left_out"]],
            "rungs": [{words(name): told for name, told in rung.items()} for rung in heat["rungs"]],
        }
        for heat in race.heats
    ]
    return table_of_race({"heats": heats, "share": race.share}, words(race.chosen), "Backbones")


def _grown(run: Run) -> list[Any]:
    return [individual for individual in run.individuals() if individual.fact.get(STAGES)]


def _first_of_each(grown: list[Any]) -> dict[str, Any]:
    """The first training of each arm, by its name."""
    first: dict[str, Any] = {}
    for individual in grown:
        first.setdefault(_name(individual), individual)
    return first


def _cells(stage: Mapping[str, Any]) -> tuple[str, ...]:
    losses = ("–" if stage[key] is None else f"{stage[key]:.3f}" for key in ("loss_before", "loss_after"))
    return (
        ", ".join(stage["edits"]) or "begins",
        f"{stage['at']:.0%}",
        f"{stage['step']:,}",
        f"{stage['livs']}",
        f"{stage['width']}",
        f"{stage['window']}",
        f"{stage['parameters']:,}",
        f"{stage['flops'] / 1e9:.3g}",
        *losses,
    )


def _reach(all_reached: list[Reached], *, rates: bool) -> list[tuple[str, ...]]:
    """A row for each arm, and for each of its learning rates where there are several."""
    by_arm: dict[str, list[Reached]] = {}
    for one in all_reached:
        rate = f", lr {one.individual.genome.learning_rate:g}" if rates else ""
        by_arm.setdefault(_name(one.individual) + rate, []).append(one)
    rows: list[tuple[str, ...]] = []
    for name, of_arm in by_arm.items():
        flops = [one.flops for one in of_arm if one.flops is not None]
        steps = [one.steps for one in of_arm if one.steps is not None]
        missed = len(of_arm) - len(flops)
        seeds = f"{len(of_arm)}" if not missed else f"{len(of_arm)}, {missed} {NEVER}"
        if flops:
            spread = f"{min(flops):.2f} to {max(flops):.2f}"
            rows.append((name, seeds, f"{fmean(flops):.2f}", spread, f"{fmean(steps):.2f}"))
        else:
            rows.append((name, seeds, NEVER, NEVER, NEVER))
    return rows


def _name(individual: Any) -> str:
    trial = individual.genome
    cell = ", ".join(str(value) for value in trial.cell.values())
    return f"{cell}: {trial.name}" if cell else str(trial.name)
