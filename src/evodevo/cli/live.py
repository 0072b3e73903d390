"""Views of a running search: a live table on a terminal, plain lines elsewhere, events for programs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.cli.views import EventStream, Region, Shown, fitting, progress_bar
from evodevo.runs.search_progress import OWN_SEED, SearchProgress, duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evodevo.search.members import Member
    from evodevo.search.problem import Outcome
    from evodevo.search.study import Study

ROWS = 12


class View(Shown, ABC):
    """View of a search. The study calls ``handle`` in this thread."""

    def __init__(self) -> None:
        self.progress = SearchProgress()

    def begin(self, study: Study) -> None:
        """Start the view, once the search has an id and before it runs; again for each stage of a protocol."""
        if self.progress.study is not None:
            self.progress = SearchProgress()
        self.progress.begin(study)

    def handle(self, kind: str, facts: dict[str, Any]) -> None:
        """Handle one message of the study."""
        self.progress.handle(kind, facts)
        self.show(kind, facts)

    @abstractmethod
    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""


def choose(*, json: bool) -> View:
    """The view for this output."""
    return fitting(json=json, events=EventView, live=LiveView, lines=LineView)


class EventView(View):
    """View that writes the messages of the study as events."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = EventStream(self._stop)

    def begin(self, study: Study) -> None:
        super().begin(study)
        self.show("begin", {"run": study.run_id})

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        self._stream.write(kind, facts)

    def _stop(self) -> None:
        if self.progress.study is not None:
            self.progress.study.stop()


class LineView(View):
    """View with a line per finished evaluation, first look at a training, and generation; no colour, no returns."""

    def __init__(self) -> None:
        super().__init__()
        self._looked: set[tuple[str, int]] = set()

    def begin(self, study: Study) -> None:
        super().begin(study)
        output.words(f"run {study.run_id}   {goal_words(study)}")

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        progress, study = self.progress, self.progress.study
        if kind == "stage":
            output.words(stage_line(facts))
        if kind == "architecture":
            output.words(architecture_words(facts))
        if study is None:
            return
        if kind == "plan":
            for line in (plan_words(facts), *facts.get("warnings", ())):
                output.words(line)
        elif kind == "features":
            output.words(features_words(facts))
        elif kind == "task":
            for line in task_words(facts):
                output.words(line)
        elif kind == "phase":
            output.words(f"{facts['name']}:")
        elif kind == "progress" and "growth" in facts:
            output.words(growth_words(study, facts))
        elif kind == "progress" and (words := self._first_look(facts)):
            output.words(words)
        elif kind == "evaluated":
            member = study.members[facts["id"]]
            seed = "" if facts["seed"] == OWN_SEED else f"  seed {facts['seed']}"
            seed += f"  to {facts['share']:.0%}" if "share" in facts else ""
            outcome = member.rungs[facts["share"]] if "share" in facts else member.outcomes[facts["seed"]]
            result = scores_in_words(study, outcome) if facts["reason"] is None else failure(facts)
            output.words(
                f"{origin(member):<34}{seed}  {result}  {duration(facts['seconds'])}{name_words(study, member)}"
            )
        elif kind == "rung":
            output.words(f"to {facts['share']:.0%}: {len(facts['stopped'])} stop, {len(facts['went_on'])} go on")
        elif kind == "generation":
            output.words(
                f"generation {facts['generation']} ({facts['generation'] + 1} of {progress.generations}): "
                f"{summary(progress)}, time left {duration(progress.seconds_left)}"
            )

    def _first_look(self, facts: dict[str, Any]) -> str:
        """``1f2e3d4c5b6a  arm  error 0.3120 on validation after 5 %  zoo``, once for each training; else empty."""
        training = facts["id"], facts["seed"]
        if "validation_error" not in facts or training in self._looked or self.progress.study is None:
            return ""
        self._looked.add(training)
        member = self.progress.study.members[facts["id"]]
        if not (name := name_words(self.progress.study, member)):
            return ""  # of the many candidates of a search the end is enough
        seed = "" if facts["seed"] == OWN_SEED else f"  seed {facts['seed']}"
        result = f"error {facts['validation_error']:.4f} on validation after {facts['share']:.0%}"
        return f"{origin(member):<34}{seed}  {result}{name}"


class LiveView(View):
    """View with one live region: finished and running work, the best individuals, and the time left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._region = Region(self._picture, clock)

    def begin(self, study: Study) -> None:
        super().begin(study)
        if not self._region.started:
            self._region.start()

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "architecture":  # before the region is there
            output.words(architecture_words(facts))
            return
        if kind == "stage":
            self.notify(stage_line(facts))
        elif kind == "plan":
            for line in (plan_words(facts), *facts.get("warnings", ())):
                self.notify(line)
        elif kind == "features":
            self.notify(features_words(facts))
        elif kind == "task":
            self._region.keep(task_words(facts))
        elif kind == "progress" and "growth" in facts and self.progress.study is not None:
            self.notify(growth_words(self.progress.study, facts))
        self._region.refresh(now=kind in ("generation", "finished"))

    def notify(self, text: str) -> None:
        self._region.notify(text)

    def end(self) -> None:
        self._region.end()

    def _picture(self, notice: str) -> RenderableType:
        assert self.progress.study is not None, "it is drawn from its beginning on"
        return picture(self.progress, self.progress.study, notice)


def architecture_words(facts: dict[str, Any]) -> str:
    """A given architecture that was brought to another depth."""
    return f"{facts['source']}: {facts['scaling']}."


def picture(progress: SearchProgress, study: Study, notice: str = "") -> RenderableType:
    """Contents of the live region."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    place = f"generation {progress.generation} ({progress.generation + 1} of {progress.generations})"
    if progress.phase != "generations":
        place = progress.phase
    line = Text(f"{place}  ") + progress_bar(progress.share) + Text(f"  {progress.done} of {progress.wanted}  ")
    line.append(f"time left {duration(progress.seconds_left)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("individual", "born", "operation", *heading_words(study)):
        table.add_column(name, justify="right" if name not in ("individual", "operation") else "left", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("genome", no_wrap=True)
    for member, state, style in rows(progress, study):
        cells = [
            origin_name(member),
            born(member),
            member.operation,
            *values(study, member.outcomes.get(OWN_SEED)),
            state,
            genome(study, member),
        ]
        table.add_row(*(Text(output.one_line(cell, 600)) for cell in cells), style=style)
    head = Text(f"run {study.run_id}  ", style="bold") + Text(goal_words(study), style="not bold")
    parts: list[RenderableType] = [head, line, Text(summary(progress)), table]
    if notice:
        parts.append(Text(output.one_line(notice), style="yellow"))
    return Group(*parts)


def rows(progress: SearchProgress, study: Study) -> list[tuple[Member, str, str]]:
    """(member, state in words, style): the baselines, the front, best first, and what is running."""
    from evodevo.search.members import BASELINE

    goals = study.problem.goals
    front = sorted(progress.front, key=lambda member: member.outcomes[OWN_SEED].values(goals) or ())
    running = [
        (study.members[identity], running_words(progress, identity, seed), "cyan")
        for identity, seed in progress.running
    ]
    drawn = [
        member for member in study.members.values() if member.operation == BASELINE and OWN_SEED in member.outcomes
    ]
    baselines = [(member, member.outcomes[OWN_SEED].reason or "", "bright_black") for member in drawn]
    room = max(0, ROWS - len(running) - len(baselines))
    return [*baselines, *((member, "front", "") for member in front[:room]), *running]


def running_words(progress: SearchProgress, identity: str, seed: int) -> str:
    """``training 35 %, error 0.2140, seed 2``."""
    error = progress.errors.get((identity, seed))
    known = "" if error is None else f", error {error:.4f}"
    return f"training {progress.running[identity, seed]:.0%}{known}" + ("" if seed == OWN_SEED else f", seed {seed}")


def summary(progress: SearchProgress) -> str:
    """Counts in words: scored, running, failed with reasons, front, hypervolume."""
    failed = sum(progress.failed.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in progress.failed.most_common())
    parts = [f"{progress.scored} scored", f"{len(progress.running)} running"]
    parts.append(f"{failed} failed" + (f" ({reasons})" if failed else ""))
    parts.append(f"front {len(progress.front)}")
    if progress.hypervolume is not None:
        gain = "" if progress.gain is None else f" ({progress.gain:+.4g})"
        parts.append(f"hypervolume {progress.hypervolume:.4g}{gain}")
    return ", ".join(parts)


def task_words(facts: dict[str, Any]) -> list[str]:
    """``data: …``, ``splits: …``, ``left out: …``."""
    from evodevo.tasks.data_lines import data_lines

    return [f"{title}: {line}" for title, line in data_lines(facts).items()]


def stage_line(facts: dict[str, Any]) -> str:
    """``protocol rb1c3bead7102, stage 2 of 6: search, run r1d458a4c53ca``."""
    run = f", run {facts['run']}" if facts["run"] else ""
    return f"{facts['kind']} {facts['whole']}, stage {facts['number']} of {facts['of']}: {facts['stage']}{run}"


def plan_words(facts: dict[str, Any]) -> str:
    """``18 trainings, expected 3.2 hours with 2 workers; it can be stopped and resumed at any time``."""
    seconds = facts["expected_seconds"]
    if seconds is None:
        expected = "duration not measured"
    else:
        expected = f"expected {seconds / 3600:.1f} hours" if seconds >= 3600 else f"expected {seconds / 60:.1f} minutes"
    count, workers = facts["trainings"], facts["workers"]
    return (
        f"{count} training{'' if count == 1 else 's'}, {expected} with {workers} worker{'' if workers == 1 else 's'}; "
        "it can be stopped and resumed at any time."
    )


def features_words(facts: dict[str, Any]) -> str:
    """``features of text: 640 of 1,000 samples``."""
    return f"features of {facts['features']}: {facts['done']:,} of {facts['total']:,} samples"


def growth_words(study: Study, facts: dict[str, Any]) -> str:
    """``ind-…  event 3: lstm-3-0 born, mlp-1 gone  grown by ppo, …``; what is told before the first event as it is."""
    from evodevo.growth.report.event_words import event_words

    growth, member = facts["growth"], study.members[facts["id"]]
    if "told" in growth:
        return f"{origin_name(member)}  {output.one_line(growth['told'], 300)}{name_words(study, member)}"
    return f"{origin_name(member)}  {output.one_line(event_words(growth))}{name_words(study, member)}"


def name_words(study: Study, member: Member) -> str:
    """Title of an arm of an experiment; empty for searched genomes, whose ids are enough."""
    from evodevo.experiments.trials import FixedTrials

    return f"  {output.one_line(study.space.title(member.genome), 120)}" if isinstance(study.space, FixedTrials) else ""


def goal_words(study: Study) -> str:
    """``quality ↓  cache ↓``."""
    return "  ".join(heading_words(study))


def heading_words(study: Study) -> list[str]:
    """The columns of the goals; names may be a user's own."""
    arrows = {"minimise": "↓", "maximise": "↑"}
    return [f"{output.one_line(goal.name, 40)} {arrows[goal.direction]}" for goal in study.problem.goals]


def values(study: Study, outcome: Outcome | None) -> list[str]:
    """An outcome's scores as text."""
    from evodevo.report.charts.numbers import show

    scores = {} if outcome is None else outcome.scores
    return [show(scores.get(goal.name), goal.unit, padded=True) for goal in study.problem.goals]


def scores_in_words(study: Study, outcome: Outcome) -> str:
    """``quality 2.314  cache 640 kB``."""
    pairs = zip(study.problem.goals, values(study, outcome), strict=True)
    return "  ".join(f"{goal.name} {value}" for goal, value in pairs)


def failure(facts: dict[str, Any]) -> str:
    """Why an evaluation failed: the reason, and the last line of its detail."""
    detail = str(facts["detail"]).strip().splitlines()
    return f"failed: {facts['reason']}" + (f" ({output.one_line(detail[-1], 160)})" if detail else "")


def origin_name(member: Member) -> str:
    """A baseline's name, else the id."""
    from evodevo.search.members import BASELINE

    return member.birth.removeprefix(f"{BASELINE}/")[:24] if member.operation == BASELINE else member.id


def origin(member: Member) -> str:
    """Name and operation of a member."""
    return f"{origin_name(member)}  {member.operation}"


def born(member: Member) -> str:
    """The generation as text; empty for baselines."""
    return str(member.generation) if member.generation >= 0 else ""


def genome(study: Study, member: Member) -> str:
    """A genome as text: one glyph per LIV of a backbone; the short form for other spaces."""
    from evodevo.runs.slices import SLICES

    if study.space.name not in SLICES:
        return output.one_line(study.space.title(member.genome), 48)
    return output.one_line(SLICES.get(study.space.name).strip(study.space, member.genome), 600)
