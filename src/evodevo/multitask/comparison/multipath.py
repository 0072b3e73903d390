"""``multitask.multipath``: ways to go on with copies of the same systems, for the same further budget.

Each copy (seed) is one system whose singlepath agents have ended; every variant continues a copy of that, with the same
draws as far as variants draw alike, so that they are compared in pairs. The table is like µ4Net's Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evodevo.experiments.paired import holm, paired_mean, paired_p
from evodevo.multitask.comparison.compared import (
    Compared,
    Ending,
    VariantAgent,
    announce,
    continued,
    courses_of,
    endings,
)
from evodevo.multitask.comparison.results import RecipeResult, courses, percent, points, to_csv
from evodevo.multitask.comparison.systems import NOTHING, RecipeRunner, Spent
from evodevo.multitask.genome import agent_name
from evodevo.multitask.recipes.settings import MultipathRecipeSettings, MultipathVariant, TaskPlan
from evodevo.multitask.recipes.variants import FROZEN_SHAPE
from evodevo.multitask.run.settings import MULTI
from evodevo.multitask.schedule import past
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.mutation import MutationSettings
from evodevo.multitask.search.supports import MultipathSettings, SupportSettings
from evodevo.multitask.system import System
from evodevo.report.word_tables import TextTable

BASE = "base"
"""The row of the systems that all variants continue."""
ALONE = 0.99
"""A copy collapsed where the main path's mean weight is above this, or where all its answers are the main path's."""
CONTROL = "singlepath"
CLAIMED = (CONTROL, "head", "no_decoupling")
"""Controls that the compared agent has to exceed; their p on the mean over targets are adjusted together."""
COLUMNS = (
    "variant", "target", "seed", "path", "test_accuracy", "validation_accuracy", "main_weight", "collapsed",
    "samples_seen", "seconds", "cpu_seconds",
)  # fmt: skip
MEAN = "mean"
"""Name of the row with the mean over the targets."""


@dataclass(frozen=True)
class MultipathEnd:
    """Everything that was measured.

    Attributes:
        settings: Of the recipe.
        compared: Variants, copies and targets; ``BASE`` is what all continue.
        planned: (variant, target) -> further training samples in one copy.
        base: Cost of the systems that all continue.
    """

    settings: MultipathRecipeSettings
    compared: Compared
    planned: Mapping[tuple[str, str], int]
    base: Spent

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rows."""
        return (BASE, *(one.name for one in self.settings.compared.variants))


def drive(course: RecipeRunner, settings: MultipathRecipeSettings) -> RecipeResult:
    """Run, or go on with, all variants on all copies.

    Raises:
        InterruptedRecipe: it was stopped.
        EvaluationsFailedError: an agent came to nothing.
    """
    wanted = settings.compared
    announce(course, _planned(course, settings))
    found: list[Ending] = []
    spent = NOTHING
    for seed in course.seeds:
        base = _base(course, settings, seed)
        targets = _targets(settings, seed)
        spent += course.spent(base, base.agents())
        for task in targets:
            known = base.best(task.name, agent=agent_name(course.kind, task.name))
            found.append(Ending(BASE, seed, task.name, known, course.measured(base, known), NOTHING, {}))
        for variant in wanted.variants:
            members = [_member(course, settings, variant, task, _finished(course, base, task)) for task in targets]
            system, agents = continued(course, base, variant.name, seed, members, "variant")
            ended = endings(course, system, variant.name, seed, members, agents)
            found += [_judged(course, base, variant, one) for one in ended]
    planned = {
        (variant.name, task.name): _extra(settings, variant)
        * (task.cycle or settings.study.cycle).children
        * course.child_samples(task)
        for variant in wanted.variants
        for task in _targets(settings, settings.study.seed)
    }
    return _result(course, MultipathEnd(settings, Compared(found), planned, spent))


def _extra(settings: MultipathRecipeSettings, variant: MultipathVariant) -> int:
    return settings.study.extra if variant.extra is None else variant.extra


def _targets(settings: MultipathRecipeSettings, seed: int) -> list[TaskPlan]:
    return [one.of_copy(seed) for one in settings.system.tasks if one.name in settings.compared.targets]


def _shared(course: RecipeRunner, settings: MultipathRecipeSettings, seed: int) -> list[VariantAgent]:
    """Agents of a base system, each to the end of its cycles; with ``flat`` those of targets have one at least."""
    study, targets = settings.study, settings.compared.targets
    return [
        VariantAgent(
            task,
            course.kind,
            task.name,
            course.facts(task.of_copy(seed)),
            1 if study.flat is not None and task.name in targets else study.cycles,
        )
        for task in settings.system.tasks
    ]


def _base(course: RecipeRunner, settings: MultipathRecipeSettings, seed: int) -> System:
    """The system that all variants of a copy continue: with ``flat``, its targets have converged.

    Paths that others read come first, so that those of the targets may begin with them.
    """
    flat, targets = settings.study.flat, settings.compared.targets
    members = _shared(course, settings, seed)
    if flat is None:
        return continued(course, course.rooted(seed), BASE, seed, members, "variant")[0]
    others = [one for one in members if one.task not in targets]
    system, _ = continued(course, course.rooted(seed), BASE, seed, others, "variant")
    for member in members:
        if member.task in targets:
            agent = course.agent(system, member.kind, member.task, member.settings)
            while not flat.ends(courses_of(system, agent)):
                course.run(system, [agent], past(course.store, system.row.id).finished(agent) + 1)
    return system


def _finished(course: RecipeRunner, base: System, task: TaskPlan) -> int:
    """Cycles that a target's agent has ended in a base system."""
    name = agent_name(course.kind, task.name)
    return past(course.store, base.row.id).finished(next(one for one in base.agents() if one.name == name))


def _planned(course: RecipeRunner, settings: MultipathRecipeSettings) -> dict[tuple[str, int], list[VariantAgent]]:
    """All agents of all systems, for the forecast: a target that may go on is taken to go on to its last cycle."""
    flat = settings.study.flat
    planned: dict[tuple[str, int], list[VariantAgent]] = {}
    for seed in course.seeds:
        base = course.find(BASE, seed)
        shared = _shared(course, settings, seed)
        since: dict[str, int] = {}
        for number, member in enumerate(shared):
            cycles = member.until if flat is None or member.task not in settings.compared.targets else flat.most
            agent = None
            if base is not None:
                wanted = agent_name(member.kind, member.task)
                agent = next((one for one in base.agents() if one.name == wanted), None)
            if base is not None and agent is not None and flat is not None and flat.ends(courses_of(base, agent)):
                cycles = past(course.store, base.row.id).finished(agent)
            shared[number], since[member.task] = replace(member, until=cycles), cycles
        planned[BASE, seed] = shared
        for variant in settings.compared.variants:
            planned[variant.name, seed] = [
                _member(course, settings, variant, task, since[task.name]) for task in _targets(settings, seed)
            ]
    return planned


def _member(
    course: RecipeRunner, settings: MultipathRecipeSettings, variant: MultipathVariant, task: TaskPlan, before: int
) -> VariantAgent:
    """The agent of a variant on a target; ``before`` are the cycles of the singlepath agent that it continues."""
    facts, extra = course.facts(task), _extra(settings, variant)
    if variant.agent == "singlepath":
        return VariantAgent(task, course.kind, task.name, facts, before + extra, before)
    if variant.agent == "head":
        # The main path belongs to another agent here, so that all of it is frozen, and its head begins anew.
        mutation = MutationSettings(forced=(), forbidden=("clone:*", *FROZEN_SHAPE))
        cycle = settings.study.cycle.model_copy(update={"child": ChildSettings(mutation=mutation)})
        own = {"cycle": cycle, "builds_on": (agent_name(course.kind, task.name),)}
        return VariantAgent(task, course.kind, f"{task.name}.head", facts.model_copy(update=own), extra)
    first = None if variant.first is None else agent_name(course.kind, variant.first)
    options: dict[str, Any] = {
        **variant.options,
        "structure": variant.structure.model_dump(mode="json"),
        "child": MultipathSettings(supports=SupportSettings(first=first)).model_dump(mode="json"),
    }
    kind = f"{MULTI}{course.kind}"
    return VariantAgent(task, kind, task.name, facts.model_copy(update={"options": options}), extra)


def _judged(course: RecipeRunner, base: System, variant: MultipathVariant, ending: Ending) -> Ending:
    """With what only a multipath model has."""
    if not ending.known.path.paths:
        return ending
    routed = variant.agent == "multipath" and variant.structure.has_router and ending.test.weights is not None
    weight = ending.test.weights[0] if routed and ending.test.weights is not None else None
    main = ending.known.path.paths[0]  # as old as the copy: only the variant's own agent has run since
    alone = course.measured(base, base.library.by_number(main.agent, main.number))
    collapsed = alone.answers == ending.test.answers or (weight is not None and weight > ALONE)
    return replace(ending, main_weight=weight, collapsed=collapsed)


# What was found


def _result(course: RecipeRunner, end: MultipathEnd) -> RecipeResult:
    session, targets = course.session, end.settings.compared.targets
    validation, test = (
        [end.compared.curve(name, name, split) for name in end.names[1:]] for split in ("validation", "test")
    )
    document = {**_document(course, end), "curves": courses(validation, test)}
    begin = _numbers(end, BASE, None)
    places = {target or "the mean of all targets": target for target in [*targets, None]}
    title = f"Points of {document['reference']} above its controls, with 95 % intervals"
    rows = [_row(one) for name in end.names for target in targets for one in end.compared.of(name, target)]
    return RecipeResult(
        session.recipe,
        session.size,
        session.label,
        "finished",
        document,
        {
            **{f"Accuracy in percent on {where}": _table(end, target) for where, target in places.items()},
            title: _control_table(document["controls"]),
        },
        to_csv(COLUMNS, rows),
        (*_summary(document), *document["notes"]),
        validation,
        test,
        {"before": (begin["validation_accuracy"], begin["accuracy"])},
        _chosen_by(end),
    )


def _document(course: RecipeRunner, end: MultipathEnd) -> dict[str, Any]:
    session, settings, targets = course.session, end.settings, end.settings.compared.targets
    return {
        "recipe": session.recipe,
        "size": session.size,
        "systems": session.label,
        "state": "finished",
        "targets": list(targets),
        "copies": settings.study.copies,
        "reference": settings.compared.reference,
        "base_samples_seen": end.base.samples,
        "planned_samples": {
            variant.name: {target: end.planned[variant.name, target] for target in targets}
            for variant in settings.compared.variants
        },
        "variants": [
            {
                "variant": name,
                "targets": {
                    **{target: _numbers(end, name, target) for target in targets},
                    MEAN: _numbers(end, name, None),
                },
            }
            for name in end.names
        ],
        "controls": _controls(end),
        "notes": _notes(end),
    }


def _numbers(end: MultipathEnd, name: str, target: str | None) -> dict[str, Any]:
    values, members = end.compared.accuracies(name, target), end.compared.of(name, target)
    reference = end.settings.compared.reference
    weights = [one.main_weight for one in members if one.main_weight is not None]
    collapsed = [one.collapsed for one in members if one.collapsed is not None]
    spent = end.compared.spent(name, target)
    return {
        "accuracy": float(np.mean(values)),
        "standard_error": float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None,
        "max": max(values),
        "validation_accuracy": float(np.mean([one.validation for one in members])),
        "p": None if name == reference else paired_p(values, end.compared.accuracies(reference, target)),
        "collapsed": sum(collapsed) if collapsed else None,
        "of": len(collapsed),
        "main_weight": float(np.mean(weights)) if weights else None,
        "samples_seen": spent.samples,
        "failed": spent.failed,
        "seconds": spent.seconds,
        "cpu_seconds": spent.cpu_seconds,
        "copies": values,
    }


def _summary(document: dict[str, Any]) -> tuple[str, ...]:
    """The question of the proof: the reference beside the singlepath agent with the same further budget."""
    rows = [one for one in document["controls"] if one["control"] == CONTROL and "mean" in one]
    if not rows:
        return ()
    differences = ", ".join(f"{points(one['mean'])} points on {one['target']} (p = {_p(one['p'])})" for one in rows)
    return (f"{document['reference']} beside {CONTROL} with the same further budget: {differences}.",)


def _controls(end: MultipathEnd) -> list[dict[str, Any]]:
    """The reference beside its controls.

    On a target: a paired test over copies, and the interval of a bootstrap over copies and test samples. On the mean
    over targets: Student's interval over copies, p adjusted by Holm, and the difference that so many copies would find.
    """
    reference, compared = end.settings.compared.reference, end.compared
    controls = [name for name in (*CLAIMED, BASE) if name in end.names]
    rows: list[dict[str, Any]] = []
    for name in controls:
        for target in end.settings.compared.targets:
            p = paired_p(compared.accuracies(reference, target), compared.accuracies(name, target))
            row: dict[str, Any] = {"control": name, "target": target, "p": p}
            if (difference := compared.difference(reference, name, target)) is not None:
                row |= difference.to_json()
            rows.append(row)
        ours, theirs = compared.accuracies(reference), compared.accuracies(name)
        row = {"control": name, "target": MEAN, "p": paired_p(ours, theirs)}
        spread = paired_mean(ours, theirs)
        rows.append(row | ({"mean": ours[0] - theirs[0]} if spread is None else asdict(spread)))
    means = [one for one in rows if one["target"] == MEAN and one["control"] in CLAIMED]
    for one, p in zip(means, holm([one["p"] for one in means]), strict=True):
        one["adjusted"] = p
    return rows


def _notes(end: MultipathEnd) -> list[str]:
    reference, copies = end.settings.compared.reference, end.settings.study.copies
    notes = [
        f"{copies} copies, each with its own seed; every variant continues a copy of the same system.",
        f"p: paired two-sided t-test over copies against {reference}; no value where all differences are alike.",
        f"p (Holm): adjusted over {', '.join(CLAIMED)} on the mean.",
        "detectable: points that so many copies would find four times out of five.",
        "collapsed: copies that answer as their main path does, or whose main path's mean weight is above 0.99.",
        f"validation: what a target's children are selected by, of the published path: {_chosen_by(end)}.",
        f"{BASE} is what all variants continue; the order of the rows is what was found, nothing asserts it.",
    ]
    for name in end.names[1:]:
        for target in end.settings.compared.targets:
            seen, planned = end.compared.spent(name, target).samples, copies * end.planned[name, target]
            if seen != planned:
                notes.append(
                    f"{name} saw {seen:,} of {planned:,} samples of {target}: children that diverged ended early."
                )
    if copies < 5:
        notes.append("Fewer than 5 copies decide nothing.")
    return notes


def _chosen_by(end: MultipathEnd) -> str:
    return ", ".join(sorted({_objective(end.settings, target) for target in end.settings.compared.targets}))


def _objective(settings: MultipathRecipeSettings, target: str) -> str:
    task = next(one for one in settings.system.tasks if one.name == target)
    return str(task.training.get("objective", settings.evaluation.training.objective))


def _table(end: MultipathEnd, target: str | None) -> TextTable:
    rows = []
    for name in end.names:
        one = _numbers(end, name, target)
        rows.append(
            (
                name,
                percent(one["accuracy"]),
                "-" if one["standard_error"] is None else f"{100 * one['standard_error']:.2f}",
                percent(one["max"]),
                percent(one["validation_accuracy"]),
                _p(one["p"]),
                "-" if one["collapsed"] is None else f"{one['collapsed']} of {one['of']}",
                "-" if one["main_weight"] is None else f"{one['main_weight']:.3f}",
                "-" if name == BASE else f"{one['seconds']:.0f}",
                "-" if name == BASE or one["cpu_seconds"] is None else f"{one['cpu_seconds']:.0f}",
            )
        )
    numbers = ("test", "s.e.", "max", "validation", "p", "collapsed", "main weight", "seconds", "CPU seconds")
    return TextTable(("variant", *numbers), rows)


def _control_table(controls: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        (
            one["control"],
            one["target"],
            points(one["mean"]),
            f"{points(one['low'])} to {points(one['high'])}" if "low" in one else "-",
            _p(one["p"]),
            _p(one.get("adjusted")),
            points(one["detectable"]).lstrip("+") if "detectable" in one else "-",
        )
        for one in controls
        if "mean" in one
    ]
    return TextTable(
        ("control", "target", "points", "interval", "p", "p (Holm)", "detectable"), rows, texts=("target",)
    )


def _row(one: Ending) -> dict[str, str | int | float | None]:
    collapsed = None if one.collapsed is None else int(one.collapsed)
    values: Sequence[str | int | float | None] = (
        one.variant, one.task, one.seed, one.known.path.id, one.test.accuracy, one.known.quality, one.main_weight,
        collapsed, one.spent.samples, one.spent.seconds, one.spent.cpu_seconds,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
