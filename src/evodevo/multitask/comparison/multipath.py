"""``multitask.multipath``: ways to go on with copies of the same systems, for the same further budget.

Each copy (seed) is one system whose singlepath agents have ended; every variant continues a copy of that, with the same
draws as far as variants draw alike, so that they are compared in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.paired import Difference, Numbers, paired_difference
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.comparison.characters import root_load
from evodevo.multitask.comparison.curves import UNSEEN, Looks, looks
from evodevo.multitask.comparison.forecast import Load, forecast
from evodevo.multitask.comparison.systems import NOTHING, RecipeRunner, Spent
from evodevo.multitask.genome import agent_name
from evodevo.multitask.measure import SplitMeasurement
from evodevo.multitask.recipes.settings import MultipathRecipeSettings, MultipathVariant, TaskPlan
from evodevo.multitask.run.settings import MULTI
from evodevo.multitask.search.child import ChildSettings
from evodevo.multitask.search.mutation import MutationSettings
from evodevo.multitask.search.supports import MultipathSettings, SupportSettings
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage.systems.base import AgentRow

BASE = "base"
"""The row of the systems that all variants continue."""
ALONE = 0.99
"""A copy collapsed where the main path's mean weight is above this, or where all its answers are the main path's."""


@dataclass(frozen=True)
class End:
    """The result of a variant on a target in one copy.

    Attributes:
        known: the published path.
        test: its measurement on the test split.
        main_weight: weight of the main path in a multipath model with a router, 0 to 1, mean over test samples.
        collapsed: whether it answers as its main path does, or gives it nearly all weight; None for other paths.
        spent: cost of the continuation.
        looks: measurements of its published paths in the continuation, cycle by cycle; none for the common base.
    """

    known: PublishedPath
    test: SplitMeasurement
    main_weight: float | None
    collapsed: bool | None
    spent: Spent
    looks: Looks = UNSEEN


@dataclass(frozen=True)
class MultipathEnd:
    """Everything that was measured.

    Attributes:
        ends: variant -> target -> one for each copy, in the order of seeds; ``BASE`` is what all continue.
        planned: training samples of one variant, one target, one copy.
        base: spent on the systems that all continue.
    """

    ends: Mapping[str, Mapping[str, Sequence[End]]]
    planned: Mapping[str, int]
    base: Spent

    def accuracies(self, variant: str, target: str | None) -> list[float]:
        """On test, one for each copy; of None the mean over targets."""
        rows = self.ends[variant]
        if target is not None:
            return [end.test.accuracy for end in rows[target]]
        return [float(np.mean(copy)) for copy in zip(*([e.test.accuracy for e in rows[t]] for t in rows), strict=True)]

    def difference(self, variant: str, reference: str, target: str) -> Difference | None:
        """Difference in the share of right answers, by a bootstrap over copies and test samples."""
        return paired_difference(*([right(end) for end in self.ends[name][target]] for name in (variant, reference)))


def right(end: End) -> Numbers:
    """(B,) which test samples were answered rightly."""
    assert end.test.right is not None, "measured by this recipe"
    return unpack(end.test.right)


def drive(course: RecipeRunner, settings: MultipathRecipeSettings) -> MultipathEnd:
    """Run, or go on with, all variants on all copies.

    Raises:
        InterruptedRecipe: it was stopped.
        EvaluationsFailedError: an agent came to nothing.
    """
    remaining = loads(course, settings)
    if remaining:
        expected = forecast(course, remaining)
        course.tell("plan", **expected.to_json(), words=expected.words)
    names = [BASE, *(variant.name for variant in settings.compared.variants)]
    ends: dict[str, dict[str, list[End]]] = {
        name: {target: [] for target in settings.compared.targets} for name in names
    }
    whole = NOTHING
    for seed in range(settings.study.seed, settings.study.seed + settings.study.copies):
        base = _base(course, settings, seed)
        whole += course.spent(base, base.agents())
        for target in settings.compared.targets:
            known = base.best(target, agent=agent_name(course.kind, target))
            ends[BASE][target].append(End(known, course.measured(base, known), None, None, NOTHING))
        for variant in settings.compared.variants:
            for target, end in _variant(course, settings, base, seed, variant).items():
                ends[variant.name][target].append(end)
    return MultipathEnd(ends, planned(course, settings), whole)


def planned(course: RecipeRunner, settings: MultipathRecipeSettings) -> dict[str, int]:
    """Target -> further training samples of every variant in one copy: equal for all."""
    children = settings.study.extra * settings.study.cycle.children
    return {target.name: children * course.child_samples(target) for target in _targets(settings)}


def loads(course: RecipeRunner, settings: MultipathRecipeSettings) -> list[Load]:
    """Trainings that are still to be done."""
    waiting, study = [], settings.study
    for seed in range(study.seed, study.seed + study.copies):
        root = course.find("root", seed)
        if root is None or not root.recorded():
            waiting.append(root_load(course))
        base = course.find(BASE, seed)
        for task in settings.system.tasks:
            waiting.append(_load(course, base, course.kind, task, task.name, 0, study.cycles * study.cycle.children))
        for variant in settings.compared.variants:
            system = course.find(variant.name, seed)
            for task in _targets(settings):
                kind, name, since = _agent_of(course, settings, variant, task.name)
                waiting.append(_load(course, system, kind, task, name, since, study.extra * study.cycle.children))
    return [load for load in waiting if load.children]


# Inside


def _load(
    course: RecipeRunner, system: System | None, kind: str, task: TaskPlan, name: str, since: int, children: int
) -> Load:
    row = None if system is None else next((o for o in system.agents() if o.name == agent_name(kind, name)), None)
    done = 0 if system is None or row is None else course.spent(system, [row], since=since).children
    looked = course.samples(task)["validation"] * course.training.validations
    return Load(children - done, course.child_samples(task), looked)


def _targets(settings: MultipathRecipeSettings) -> list[TaskPlan]:
    return [task for task in settings.system.tasks if task.name in settings.compared.targets]


def _base(course: RecipeRunner, settings: MultipathRecipeSettings, seed: int) -> System:
    system = course.fork(course.rooted(seed), BASE, seed)
    agents = [course.agent(system, course.kind, task.name, course.facts(task)) for task in settings.system.tasks]
    course.tell("variant", variant=BASE, seed=seed, system=system.row.name)
    course.run(system, agents, settings.study.cycles)
    return system


def _agent_of(
    course: RecipeRunner, settings: MultipathRecipeSettings, variant: MultipathVariant, target: str
) -> tuple[str, str, int]:
    """Class and task of the agent that continues, and from which of its cycles on."""
    if variant.agent == "singlepath":
        return course.kind, target, settings.study.cycles
    return (course.kind, f"{target}.head", 0) if variant.agent == "head" else (f"{MULTI}{course.kind}", target, 0)


def _variant(
    course: RecipeRunner, settings: MultipathRecipeSettings, base: System, seed: int, variant: MultipathVariant
) -> dict[str, End]:
    system = course.fork(base, variant.name, seed)
    agents: list[AgentRow] = []
    since = 0
    for task in _targets(settings):
        kind, name, since = _agent_of(course, settings, variant, task.name)
        agents.append(course.agent(system, kind, name, _settings(course, settings, variant, task)))
    course.tell("variant", variant=variant.name, seed=seed, system=system.row.name)
    course.run(system, agents, since + settings.study.extra)
    ends = {}
    for agent, task in zip(agents, _targets(settings), strict=True):
        known = system.best(agent.task, agent=agent.name)
        test = course.measured(system, known)
        weight = _main_weight(variant, test)
        same = _answers_as_main(course, base, known, test) if known.path.paths else None
        collapsed = None if same is None else same or (weight is not None and weight > ALONE)
        spent, seen = course.spent(system, [agent], since=since), looks(course, system, agent, since=since)
        ends[task.name] = End(known, test, weight, collapsed, spent, seen)
    return ends


def _settings(
    course: RecipeRunner, settings: MultipathRecipeSettings, variant: MultipathVariant, task: TaskPlan
) -> AgentSettings:
    facts = course.facts(task)
    if variant.agent == "singlepath":
        return facts
    if variant.agent == "head":
        # The main path belongs to another agent here, so that all of it is frozen, and its head begins anew.
        mutation = MutationSettings(forced=(), forbidden=("clone:*", "hp:num_layers", "hp:ds_image_size"))
        cycle = settings.study.cycle.model_copy(update={"child": ChildSettings(mutation=mutation)})
        return facts.model_copy(update={"cycle": cycle, "builds_on": (agent_name(course.kind, task.name),)})
    first = None if variant.first is None else agent_name(course.kind, variant.first)
    options: dict[str, Any] = {
        "structure": variant.structure.model_dump(mode="json"),
        "child": MultipathSettings(supports=SupportSettings(first=first)).model_dump(mode="json"),
    }
    return facts.model_copy(update={"options": options})


def _main_weight(variant: MultipathVariant, test: SplitMeasurement) -> float | None:
    if variant.agent != "multipath" or not variant.structure.has_router or test.weights is None:
        return None
    return test.weights[0]


def _answers_as_main(course: RecipeRunner, base: System, known: PublishedPath, test: SplitMeasurement) -> bool:
    main = known.path.paths[0]  # as old as the copy: nobody but the variant's own agent has run since
    alone = course.measured(base, base.library.by_number(main.agent, main.number))
    return alone.answers == test.answers
