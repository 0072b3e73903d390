"""``multitask.characters``: ways to learn the same tasks, with equal samples, and what each leaves behind.

Every arm is a copy of one system with a trained root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from evodevo.experiments.paired import Difference
from evodevo.multitask.agent import AGENTS, PublishedPath
from evodevo.multitask.comparison.compared import Compared, Ending, VariantAgent, announce, continued, endings
from evodevo.multitask.comparison.forecast import Load
from evodevo.multitask.comparison.joint import JOINT_LOOKS, joint_root
from evodevo.multitask.comparison.results import RecipeResult, courses, percent, points, to_csv
from evodevo.multitask.comparison.systems import NOTHING, RecipeRunner, Spent
from evodevo.multitask.comparison.target import target_of, target_words
from evodevo.multitask.recipes.settings import CharactersSettings
from evodevo.multitask.recipes.variants import ARMS, RecipeVariant, restricted
from evodevo.multitask.schedule import is_joint, is_root, past
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.system import System
from evodevo.report.word_tables import TextTable
from evodevo.storage.systems.base import AgentRow

OURS, OURS_JOINT, REFERENCE = "singlepath", "joint", "fine_tuning"
COLUMNS = (
    "arm", "title", "seed", "task", "path", "test_accuracy", "validation_accuracy", "accounted_parameters",
    "samples_seen", "children", "failed", "seconds", "cpu_seconds",
)  # fmt: skip
"""Columns of the CSV. Shares are from 0 to 1; seconds are those of workers, by the clock and of their CPUs."""


@dataclass(frozen=True)
class CharactersEnd:
    """Everything that was measured.

    Attributes:
        settings: Of the recipe.
        compared: Arms, copies and tasks.
        roots: Seed -> path of the root.
        pretraining: Cost of the roots, which no arm counts as its own.
        parameters: (arm, seed) -> distinct parameters of the system, the root's among them where the arm needs it.
        planned: Training samples that each arm was to see, for one copy.
        joined: Cost of the roots that the tasks of an arm trained together, of all copies.
    """

    settings: CharactersSettings
    compared: Compared
    roots: Mapping[int, PublishedPath]
    pretraining: Spent
    parameters: Mapping[tuple[str, int], int]
    planned: int
    joined: Spent = NOTHING

    def spent(self, arm: str) -> Spent:
        """Cost of an arm, all copies."""
        return self.compared.spent(arm) + (self.joined if ARMS[arm].joins else NOTHING)

    def per_task(self, arm: str, *, without_root: bool = False) -> float | None:
        """Parameters per task, mean over copies; None where the arm was not compared."""
        counts = [
            count - (self.roots[seed].parameters if without_root else 0)
            for (name, seed), count in self.parameters.items()
            if name == arm
        ]
        return fmean(count / len(self.settings.system.tasks) for count in counts) if counts else None

    def share(self, arm: str) -> float | None:
        """Parameters per task as a share of those of full fine-tuning."""
        ours, theirs = self.per_task(arm), self.per_task(REFERENCE)
        return None if ours is None or theirs is None else ours / theirs

    def differences(self) -> dict[tuple[str, str, str], Difference]:
        """(arm, reference, task) -> right answers of an arm minus those of an arm before it, over all copies."""
        names = self.settings.arms
        pairs = [(name, reference) for number, name in enumerate(names) for reference in names[:number]]
        found = {
            (*pair, task.name): self.compared.difference(*pair, task.name)
            for pair in pairs
            for task in self.settings.system.tasks
        }
        return {key: difference for key, difference in found.items() if difference is not None}


def drive(course: RecipeRunner, settings: CharactersSettings) -> RecipeResult:
    """Run, or go on with, all arms of all copies.

    Raises:
        InterruptedRecipe: it was stopped.
        EvaluationsFailedError: an agent came to nothing.
    """
    tasks, cycles = settings.system.tasks, settings.study.cycles
    arms = {name: _members(course, settings, ARMS[name]) for name in settings.arms}
    groups = {(name, seed): members for seed in course.seeds for name, members in arms.items()}
    joins = [members for name, members in arms.items() if ARMS[name].joins]
    announce(course, groups, [load for members in joins for load in _joint_loads(course, settings, members)])
    roots: dict[int, PublishedPath] = {}
    found: list[Ending] = []
    parameters: dict[tuple[str, int], int] = {}
    pretraining = joined = NOTHING
    planned = cycles * settings.study.cycle.children * sum(map(course.child_samples, tasks))
    for seed in course.seeds:
        base = course.rooted(seed)
        agent = course.root_agent(base)
        assert agent is not None
        roots[seed] = base.view().offers[agent.name]
        pretraining += course.spent(base, [agent])
        for name, members in arms.items():
            if ARMS[name].joins:
                samples = _joint_samples(course, settings, members)
                joint_root(course, course.fork(base, name, seed), tasks, samples)
            system, agents = continued(course, base, name, seed, members, "arm")
            if ARMS[name].joins:
                joined += course.spent(system, _joint(system))
            found += endings(course, system, name, seed, members, agents)
            parameters[name, seed] = _parameters(system, root=ARMS[name].needs_root)
    return _result(course, CharactersEnd(settings, Compared(found), roots, pretraining, parameters, planned, joined))


def _members(course: RecipeRunner, settings: CharactersSettings, arm: RecipeVariant) -> list[VariantAgent]:
    rules = AGENTS.get(course.kind).published("paper")
    usual = ChildSettings() if rules is None else rules.cycle.child
    cycle = restricted(settings.study.cycle, arm, usual)
    if arm.joins:
        cycle = cycle.model_copy(update={"parents": cycle.parents.model_copy(update={"fallback": "probed"})})
    own = {"builds_on": arm.builds_on, "cycle": cycle}
    until = settings.study.cycles - (joint_cycles(settings.study.cycles) if arm.joins else 0)
    return [
        VariantAgent(task, course.kind, task.name, course.facts(task).model_copy(update=own), until)
        for task in settings.system.tasks
    ]


def joint_cycles(cycles: int) -> int:
    """Number of cycles in whose place all tasks train a root together."""
    return cycles // 2


def _joint_samples(course: RecipeRunner, settings: CharactersSettings, members: Sequence[VariantAgent]) -> int:
    """Training samples of a root that all tasks train together: those of the cycles in whose place it is, and of the
    first children, which share it whole and train nothing."""
    children = joint_cycles(settings.study.cycles) * settings.study.cycle.children
    return sum((children + _untrained(one)) * course.child_samples(one.plan) for one in members)


def _untrained(member: VariantAgent) -> int:
    cycle = member.settings.cycle
    assert cycle is not None, "of the recipe"
    return cycle.child.untrained


def _joint_loads(course: RecipeRunner, settings: CharactersSettings, members: Sequence[VariantAgent]) -> list[Load]:
    """Roots that all tasks are still to train together."""
    tasks = settings.system.tasks
    samples = _joint_samples(course, settings, members)
    looked = JOINT_LOOKS * sum(course.samples(task)["validation"] for task in tasks)
    names = [name for name in settings.arms if ARMS[name].joins]
    systems = [course.find(name, seed) for seed in course.seeds for name in names]
    made = [one is not None and any(map(past(course.store, one.row.id).finished, _joint(one))) for one in systems]
    return [Load(1, samples, looked) for one in made if not one]


def _joint(system: System) -> list[AgentRow]:
    return [one for one in system.agents() if is_joint(one)]


def _parameters(system: System, *, root: bool) -> int:
    """Distinct ones of all published paths."""
    view = system.view()
    paths = [known for name, known in view.offers.items() if root or not is_root(view.agents[name])]
    return sum({part.id: part.parameters for known in paths for part in known.components}.values())


# What was found


def _result(course: RecipeRunner, end: CharactersEnd) -> RecipeResult:
    session, arms = course.session, end.settings.arms
    validation, test = (
        [end.compared.curve(name, _title(name), split) for name in arms] for split in ("validation", "test")
    )
    differences = end.differences()
    document = {**_document(course, end, differences), "curves": courses(validation, test)}
    title = "Points of (d) and (e) above the others, on the same test samples, with 95 % intervals of a bootstrap"
    return RecipeResult(
        session.recipe,
        session.size,
        session.label,
        "finished",
        document,
        {"Test accuracy in percent": _arms_table(end), title: _difference_table(differences)},
        to_csv(COLUMNS, [_row(one) for one in end.compared.endings]),
        (*_summary(OURS, document["target"]), *_summary(OURS_JOINT, document["joint_target"]), *document["notes"]),
        validation,
        test,
    )


def _title(arm: str) -> str:
    return f"({ARMS[arm].letter}) {ARMS[arm].title}"


def _document(
    course: RecipeRunner, end: CharactersEnd, differences: Mapping[tuple[str, str, str], Difference]
) -> dict[str, Any]:
    session, settings = course.session, end.settings
    roots = list(end.roots.values())
    return {
        "recipe": session.recipe,
        "size": session.size,
        "systems": session.label,
        "state": "finished",
        "tasks": [one.name for one in settings.system.tasks],
        "copies": settings.study.copies,
        "root": {
            "data": settings.system.root.name,
            "validation_accuracy": fmean(one.quality or 0.0 for one in roots),
            "parameters": roots[0].parameters,
            "samples_seen": end.pretraining.samples,
            "seconds": end.pretraining.seconds,
            "cpu_seconds": end.pretraining.cpu_seconds,
        },
        "planned_samples": end.planned * settings.study.copies,
        "arms": [_arm(end, name) for name in settings.arms],
        "differences": [
            {"arm": arm, "reference": reference, "task": task, **difference.to_json()}
            for (arm, reference, task), difference in differences.items()
        ],
        "target": _target(end, OURS),
        "joint_target": _target(end, OURS_JOINT),
        "notes": _notes(session.size, end),
    }


def _arm(end: CharactersEnd, name: str) -> dict[str, Any]:
    row, compared, spent = ARMS[name], end.compared, end.spent(name)
    return {
        "arm": name,
        "letter": row.letter,
        "title": row.title,
        "restriction": row.words,
        **_accuracy(compared, name, None),
        "parameters": fmean(count for (arm, _), count in end.parameters.items() if arm == name),
        "root_counted": row.needs_root,
        "parameters_per_task": end.per_task(name),
        "share": end.share(name),
        "samples_seen": spent.samples,
        "children": spent.children,
        "failed": spent.failed,
        "seconds": spent.seconds,
        "cpu_seconds": spent.cpu_seconds,
        "tasks": {task.name: _accuracy(compared, name, task.name) for task in end.settings.system.tasks},
    }


def _accuracy(compared: Compared, name: str, task: str | None) -> dict[str, float | None]:
    """Of an arm over copies."""
    values = compared.accuracies(name, task)
    return {
        "accuracy": fmean(values),
        "deviation": stdev(values) if len(values) > 1 else None,
        "validation_accuracy": fmean(compared.validations(name, task)),
    }


def _target(end: CharactersEnd, arm: str) -> dict[str, Any] | None:
    share, ours = end.share(arm), end.per_task(arm)
    without_root = end.per_task(REFERENCE, without_root=True)
    if share is None or ours is None or without_root is None:
        return None
    accuracies = end.compared.accuracies
    return target_of(accuracies(arm), accuracies(REFERENCE), share, ours / without_root)


def _summary(arm: str, target: dict[str, Any] | None) -> tuple[str, ...]:
    return () if target is None else (target_words(ARMS[arm].letter, target),)


def _notes(size: str, end: CharactersEnd) -> list[str]:
    settings, root = end.settings, end.pretraining.samples
    notes = [
        f"The root was first trained on {settings.system.root.name}; its {root:,} samples are no arm's own.",
        "Parameters of all arms but (a) include the root's, which (a) does not use, and of (e) both roots'.",
        *(f"({ARMS[name].letter}) {ARMS[name].words}." for name in settings.arms),
        "All arms tune learning rate, momentum and augmentation in the same way, and publish by validation accuracy.",
        "The test split is looked at once for each path that a cycle published, when its arm has ended.",
    ]
    planned = end.planned * settings.study.copies
    for name in settings.arms:
        spent = end.spent(name)
        # A joint root is trained in whole steps between looks.
        rounded = settings.study.copies * JOINT_LOOKS * settings.evaluation.training.batch if ARMS[name].joins else 0
        if abs(spent.samples - planned) > rounded:
            notes.append(
                f"({ARMS[name].letter}) saw {spent.samples:,} of {planned:,} samples: children that diverged ended"
                f" early ({spent.failed} failed)."
            )
    if size == "quick":
        notes.append("The size quick shows that all works; its budget is too small to decide anything.")
    if settings.study.copies == 1:
        notes.append("One copy: intervals cover test samples alone, not chance in the search.")
    return notes


def _arms_table(end: CharactersEnd) -> TextTable:
    tasks = [one.name for one in end.settings.system.tasks]
    rows = []
    for name in end.settings.arms:
        spent = end.spent(name)
        rows.append(
            (
                _title(name),
                *(percent(fmean(end.compared.accuracies(name, task))) for task in (*tasks, None)),
                f"{end.per_task(name):,.0f}",
                percent(end.share(name)),
                f"{spent.samples:,}",
                f"{spent.seconds / 60:.1f}",
                "-" if spent.cpu_seconds is None else f"{spent.cpu_seconds / 60:.1f}",
            )
        )
    return TextTable(("arm", *tasks, "mean", "parameters/task", "% of (b)", "samples", "minutes", "CPU minutes"), rows)


def _difference_table(differences: Mapping[tuple[str, str, str], Difference]) -> TextTable:
    rows = [
        (
            f"({ARMS[arm].letter}) - ({ARMS[reference].letter})",
            task,
            points(difference.mean),
            f"{points(difference.low)} to {points(difference.high)}",
            f"{difference.samples:,}",
        )
        for (arm, reference, task), difference in differences.items()
        if arm in (OURS, OURS_JOINT)
    ]
    return TextTable(("pair", "task", "points", "interval", "samples"), rows, texts=("task",))


def _row(one: Ending) -> dict[str, str | int | float | None]:
    values: Sequence[str | int | float | None] = (
        one.variant, ARMS[one.variant].title, one.seed, one.task, one.known.path.id, one.test.accuracy,
        one.known.quality, one.accounted, one.spent.samples, one.spent.children, one.spent.failed, one.spent.seconds,
        one.spent.cpu_seconds,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
