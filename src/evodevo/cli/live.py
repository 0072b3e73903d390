"""A search while it runs: a live table on a terminal, plain lines elsewhere, events for programs.

Views write on stderr, so that stdout holds nothing but the result; the exception is the stream of events.
"""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from evodevo.cli import output
from evodevo.cli.standing import OWN_SEED, Standing, duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from evodevo.study import Member, Study

REDRAW_SECONDS = 0.25
ROWS = 12
BAR = 24


class View(ABC):
    """Where a search is shown. ``hear`` is called from the study, in this thread."""

    def __init__(self) -> None:
        self.standing = Standing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self, study: Study) -> None:
        """The search has an id and is about to start."""
        self.standing.begin(study)

    def hear(self, kind: str, facts: dict[str, Any]) -> None:
        """What the study tells."""
        self.standing.hear(kind, facts)
        self.show(kind, facts)

    @abstractmethod
    def show(self, kind: str, facts: dict[str, Any]) -> None:
        """Show what has changed."""

    def say(self, text: str) -> None:
        """A sentence to the user."""
        output.words(text)

    def end(self) -> None:
        """Nothing more is to come."""
        return


def choose(*, json: bool) -> View:
    """The view that fits: events if they are asked for, the live table on a capable terminal, lines elsewhere."""
    if json:
        return EventView()
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return LiveView() if terminal and output.has_unicode(sys.stderr) else LineView()


class EventView(View):
    """Newline-delimited JSON on stdout: what the study tells, as it is."""

    def __init__(self) -> None:
        super().__init__()
        self._deaf = False

    def begin(self, study: Study) -> None:
        super().begin(study)
        self.show("begin", {"run": study.run_id})

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if self._deaf:
            return
        try:
            output.event({"schema": "evodevo.event/1", "type": kind, **facts})
        except output.ReaderGoneError:
            # Nobody listens any more: as with Ctrl-C, what is running is finished and recorded.
            self._deaf = True
            if self.standing.study is not None:
                self.standing.study.stop()


class LineView(View):
    """A line per finished evaluation and one per generation; no colour, no carriage return."""

    def begin(self, study: Study) -> None:
        super().begin(study)
        output.words(f"run {study.run_id}   {goal_words(study)}")

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        standing, study = self.standing, self.standing.study
        if study is None:
            return
        if kind == "plan":
            for line in (plan_words(facts), *facts.get("warnings", ())):
                output.words(line)
        elif kind == "features":
            output.words(features_words(facts))
        elif kind == "phase":
            output.words(f"{facts['name']}:")
        elif kind == "progress" and "growth" in facts:
            output.words(growth_words(study, facts))
        elif kind == "evaluated":
            member = study.members[facts["id"]]
            seed = "" if facts["seed"] == OWN_SEED else f"  seed {facts['seed']}"
            result = scores_in_words(study, member, facts["seed"]) if facts["reason"] is None else failure(facts)
            output.words(
                f"{origin(member):<34}{seed}  {result}  {duration(facts['seconds'])}{name_words(study, member)}"
            )
        elif kind == "generation":
            output.words(
                f"generation {facts['generation']} ({facts['generation'] + 1} of {standing.generations}): "
                f"{summary(standing)}, time left {duration(standing.seconds_left)}"
            )


class LiveView(View):
    """One live region: what is done, what runs, the best, and how long it will take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._drawn = 0.0
        self._drawing = False
        self._live: Live | None = None
        self._said = ""

    def begin(self, study: Study) -> None:
        from rich.console import Console
        from rich.live import Live

        super().begin(study)
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.start()
        self._draw()

    def show(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "plan":
            for line in (plan_words(facts), *facts.get("warnings", ())):
                self.say(line)
        elif kind == "features":
            self.say(features_words(facts))
        elif kind == "progress" and "growth" in facts and self.standing.study is not None:
            self.say(growth_words(self.standing.study, facts))
        if self._clock() - self._drawn >= REDRAW_SECONDS or kind in ("generation", "finished"):
            self._draw()

    def say(self, text: str) -> None:
        if self._live is None:
            output.words(text)
        else:
            self._said = text
            self._draw()

    def end(self) -> None:
        if self._live is not None:
            self._draw()
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        # ``say`` is called from a signal handler, perhaps in the middle of a drawing; the next one shows it then.
        if self._live is None or self.standing.study is None or self._drawing:
            return
        self._drawing = True
        try:
            self._drawn = self._clock()
            self._live.update(picture(self.standing, self.standing.study, self._said), refresh=True)
        finally:
            self._drawing = False


def picture(standing: Standing, study: Study, said: str = "") -> RenderableType:
    """The live region."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    full = round(standing.share * BAR)
    bar = Text("━" * full, style="green") + Text("━" * (BAR - full), style="bright_black")
    place = f"generation {standing.generation} ({standing.generation + 1} of {standing.generations})"
    if standing.phase != "generations":
        place = standing.phase
    line = Text(f"{place}  ") + bar + Text(f"  {standing.done} of {standing.wanted}  ")
    line.append(f"time left {duration(standing.seconds_left)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("individual", "born", "operation", *heading_words(study)):
        table.add_column(name, justify="right" if name not in ("individual", "operation") else "left", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("genome", no_wrap=True)
    for member, state, style in rows(standing, study):
        cells = [
            origin_name(member),
            born(member),
            member.operation,
            *values(study, member),
            state,
            genome(study, member),
        ]
        table.add_row(*(Text(output.one_line(cell, 600)) for cell in cells), style=style)
    head = Text(f"run {study.run_id}  ", style="bold") + Text(goal_words(study), style="not bold")
    parts: list[RenderableType] = [head, line, Text(summary(standing)), table]
    if said:
        parts.append(Text(output.one_line(said), style="yellow"))
    return Group(*parts)


def rows(standing: Standing, study: Study) -> list[tuple[Member, str, str]]:
    """(member, state in words, style): the baselines, the front, best first, and what is running."""
    from evodevo.study import BASELINE

    goals = study.problem.goals
    front = sorted(standing.front, key=lambda one: one.outcomes[OWN_SEED].values(goals) or ())
    running = [
        (study.members[identity], f"training {share:.0%}" + ("" if seed == OWN_SEED else f", seed {seed}"), "cyan")
        for (identity, seed), share in standing.running.items()
    ]
    drawn = [one for one in study.members.values() if one.operation == BASELINE and OWN_SEED in one.outcomes]
    baselines = [(member, member.outcomes[OWN_SEED].reason or "", "bright_black") for member in drawn]
    room = max(0, ROWS - len(running) - len(baselines))
    return [*baselines, *((member, "front", "") for member in front[:room]), *running]


def summary(standing: Standing) -> str:
    """Counts in words: scored, running, failed with reasons, front, hypervolume."""
    failed = sum(standing.failed.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in standing.failed.most_common())
    parts = [f"{standing.scored} scored", f"{len(standing.running)} running"]
    parts.append(f"{failed} failed" + (f" ({reasons})" if failed else ""))
    parts.append(f"front {len(standing.front)}")
    if standing.hypervolume is not None:
        gain = "" if standing.gain is None else f" ({standing.gain:+.4g})"
        parts.append(f"hypervolume {standing.hypervolume:.4g}{gain}")
    return ", ".join(parts)


def plan_words(facts: dict[str, Any]) -> str:
    """``18 trainings, expected 3.2 hours with 2 workers; it can be stopped and resumed at any time``."""
    seconds = facts["expected_seconds"]
    if seconds is None:
        expected = "no time can be foreseen"
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
    """``ind-…  event 3: lstm-3-0 born, mlp-1 gone  grown by ppo, …``."""
    growth, member = facts["growth"], study.members[facts["id"]]
    parts = [f"{', '.join(map(str, growth[what]))} {what}" for what in ("born", "gone") if growth.get(what)]
    happened = ", ".join(parts) or "nothing changed"
    return f"{origin_name(member)}  event {growth['event']}: {output.one_line(happened)}{name_words(study, member)}"


def name_words(study: Study, member: Member) -> str:
    """What an arm of an experiment is called; nothing for searched genomes, whose ids say enough."""
    from evodevo.spaces.arms import ArmSpace

    return f"  {output.one_line(study.space.title(member.genome), 120)}" if isinstance(study.space, ArmSpace) else ""


def goal_words(study: Study) -> str:
    """``quality ↓  cache ↓``."""
    return "  ".join(heading_words(study))


def heading_words(study: Study) -> list[str]:
    """The columns of the goals; names may be a user's own."""
    arrows = {"minimise": "↓", "maximise": "↑"}
    return [f"{output.one_line(goal.name, 40)} {arrows[goal.direction]}" for goal in study.problem.goals]


def values(study: Study, member: Member, seed: int = OWN_SEED) -> list[str]:
    """A member's numbers, as people read them."""
    from evodevo.diagrams.numbers import show

    outcome = member.outcomes.get(seed)
    scores = {} if outcome is None else outcome.scores
    return [show(scores.get(goal.name), goal.unit, padded=True) for goal in study.problem.goals]


def scores_in_words(study: Study, member: Member, seed: int) -> str:
    """``quality 2.314  cache 640 kB``."""
    pairs = zip(study.problem.goals, values(study, member, seed), strict=True)
    return "  ".join(f"{goal.name} {value}" for goal, value in pairs)


def failure(facts: dict[str, Any]) -> str:
    """Why an evaluation failed: the reason, and the last line of its detail."""
    detail = str(facts["detail"]).strip().splitlines()
    return f"failed: {facts['reason']}" + (f" ({output.one_line(detail[-1], 160)})" if detail else "")


def origin_name(member: Member) -> str:
    """A baseline's name, else the id."""
    from evodevo.study import BASELINE

    return member.birth.removeprefix(f"{BASELINE}/")[:24] if member.operation == BASELINE else member.id


def origin(member: Member) -> str:
    """Who it is and where it comes from."""
    return f"{origin_name(member)}  {member.operation}"


def born(member: Member) -> str:
    """The generation; nothing for baselines."""
    return str(member.generation) if member.generation >= 0 else ""


def genome(study: Study, member: Member) -> str:
    """One glyph per LIV of a backbone; of other spaces the short form."""
    from evodevo.runs.slices import SLICES

    if study.space.name not in SLICES:
        return output.one_line(study.space.title(member.genome), 48)
    return output.one_line(SLICES.get(study.space.name).strip(study.space, member.genome), 600)
