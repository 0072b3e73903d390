"""Variants that continue copies of the same systems: how they run, what they leave, how they are compared.

Each copy (seed) is one system; every variant continues a copy of it with agents of its own. A task's answer is the path
that its agent published, chosen by validation. The test split is looked at once for each path that a cycle published,
when the variant has ended, and nothing that selects reads that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any, Literal

from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.paired import Difference, Numbers, paired_difference
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.comparison.forecast import Load, forecast
from evodevo.multitask.comparison.systems import NOTHING, RecipeRunner, Spent
from evodevo.multitask.diagrams.system.cycles import CycleCurve
from evodevo.multitask.genome import agent_name
from evodevo.multitask.measure import SplitMeasurement
from evodevo.multitask.recipes.settings import TaskPlan
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage.systems.base import AgentRow

Split = Literal["validation", "test"]


@dataclass(frozen=True)
class VariantAgent:
    """An agent of a variant.

    Attributes:
        plan: Task that it answers.
        kind: Class of the agent.
        task: Task by which its system calls it.
        settings: With which it is added.
        until: Number of cycles that it ends altogether.
        since: First cycle that belongs to the variant; earlier ones are of the system that it continues.
    """

    plan: TaskPlan
    kind: str
    task: str
    settings: AgentSettings
    until: int
    since: int = 0


Groups = Mapping[tuple[Any, int], Sequence[VariantAgent]]
"""Name of a system and seed of its copy -> its members."""


@dataclass(frozen=True)
class Ending:
    """The result of a variant on a task in one copy.

    Attributes:
        variant: Its name.
        seed: Of the copy.
        task: Its name.
        known: Published path.
        test: What the path answers to the test split.
        spent: Cost of the agent's own cycles.
        courses: Split -> accuracy, 0 to 1, of what each of these cycles published.
        accounted: Parameters that the agent answers for; shared ones are split among their users.
        main_weight: Mean weight of the main path over test samples; None without a router.
        collapsed: Whether a multipath model answers as its main path does, or gives it nearly all weight;
            None for other models.
    """

    variant: str
    seed: int
    task: str
    known: PublishedPath
    test: SplitMeasurement
    spent: Spent
    courses: Mapping[Split, Sequence[float]]
    accounted: float = 0.0
    main_weight: float | None = None
    collapsed: bool | None = None

    @property
    def validation(self) -> float:
        """Accuracy of the published path, 0 to 1."""
        return self.known.quality or 0.0

    @property
    def right(self) -> Numbers:
        """(B,) which test samples were answered rightly."""
        assert self.test.right is not None, "measured by this recipe"
        return unpack(self.test.right)


@dataclass(frozen=True)
class Compared:
    """All endings, in the order of seeds, variants and tasks."""

    endings: Sequence[Ending]

    def of(self, variant: str, task: str | None = None) -> list[Ending]:
        """Endings of a variant, of one task or of all."""
        return [one for one in self.endings if one.variant == variant and task in (None, one.task)]

    def copies(self, variant: str, task: str | None = None) -> list[list[Ending]]:
        """The same, copy by copy."""
        found: dict[int, list[Ending]] = {}
        for one in self.of(variant, task):
            found.setdefault(one.seed, []).append(one)
        return list(found.values())

    def accuracies(self, variant: str, task: str | None = None) -> list[float]:
        """Test accuracy of each copy, 0 to 1; without a task the mean over tasks."""
        return [sum(one.test.accuracy for one in copy) / len(copy) for copy in self.copies(variant, task)]

    def validations(self, variant: str, task: str | None = None) -> list[float]:
        """Likewise on validation."""
        return [sum(one.validation for one in copy) / len(copy) for copy in self.copies(variant, task)]

    def spent(self, variant: str, task: str | None = None) -> Spent:
        """Cost of all copies."""
        return sum((one.spent for one in self.of(variant, task)), NOTHING)

    def difference(self, variant: str, reference: str, task: str) -> Difference | None:
        """Difference in the share of right answers, by a bootstrap over copies and test samples."""
        ours, theirs = ([one.right for one in self.of(name, task)] for name in (variant, reference))
        return paired_difference(ours, theirs)

    def curve(self, variant: str, title: str, split: Split) -> CycleCurve:
        """Accuracy after each cycle, mean over tasks (µ4Net, Fig. 3); one course for each copy."""
        copies = self.copies(variant)
        # An agent whose cycle came to nothing is behind.
        return CycleCurve(
            title, [[fmean(row) for row in zip(*(one.courses[split] for one in copy), strict=False)] for copy in copies]
        )


def announce(course: RecipeRunner, groups: Groups, more: Sequence[Load] = ()) -> None:
    """Report the expected time, where anything is still to be trained.

    Args:
        course: Of the recipe.
        groups: Name of a system and seed of its copy -> its members.
        more: Further trainings.
    """
    loads = [*remaining(course, groups), *more]
    if loads:
        expected = forecast(course, loads)
        course.report("plan", **expected.to_json(), words=expected.words)


def remaining(course: RecipeRunner, groups: Groups) -> list[Load]:
    """Trainings that are still to be done; see ``announce``."""
    loads = []
    validations = course.training.validations
    for seed in course.seeds:
        rooted = course.find("root", seed)
        if rooted is None or not rooted.recorded():
            plan, root_validations = course.settings.system.root, course.settings.evaluation.root_validations
            learned = root_validations * (course.child_samples(plan) // validations)
            loads.append(Load(1, learned, root_validations * course.samples(plan)["validation"]))
    for (name, seed), members in groups.items():
        system = course.find(name, seed)
        agents = {} if system is None else {one.name: one for one in system.agents()}
        for member in members:
            agent = agents.get(agent_name(member.kind, member.task))
            done = 0
            if system is not None and agent is not None:
                done = course.spent(system, [agent], since=member.since).children
            cycle = member.settings.cycle or course.settings.study.cycle
            left = (member.until - member.since) * cycle.children - done
            if left:
                looked = validations * course.samples(member.plan)["validation"]
                loads.append(Load(left, course.child_samples(member.plan), looked))
    return loads


def continued(
    course: RecipeRunner, base: System, name: str, seed: int, members: Sequence[VariantAgent], word: str
) -> tuple[System, list[AgentRow]]:
    """The copy of a system that a variant continues, to its end.

    Args:
        course: Of the recipe.
        base: Continued system.
        name, seed: Of the variant and the copy.
        members: Agents of the variant; those that end equally many cycles run together.
        word: Kind of the message to the listener about the variant: ``arm`` or ``variant``.

    Raises:
        InterruptedRecipe: it was stopped.
        EvaluationsFailedError: an agent came to nothing.
    """
    system = course.fork(base, name, seed)
    agents = [course.agent(system, one.kind, one.task, one.settings) for one in members]
    course.report(word, **{word: name}, seed=seed, system=system.row.name)
    for until in sorted({one.until for one in members}):
        course.run(system, [agent for one, agent in zip(members, agents, strict=True) if one.until == until], until)
    return system, agents


def courses_of(system: System, agent: AgentRow) -> list[float]:
    """Best quality on validation after each cycle of an agent that published, 0 to 1."""
    rows = system.store.systems.publications(system.row.id)
    paths = [one.path_id for one in rows if one.agent_id == agent.id and one.path_id and one.cycle is not None]
    best = accumulate((system.library.one(path).quality or 0.0 for path in paths), max)
    return list(best)


def endings(
    course: RecipeRunner,
    system: System,
    name: str,
    seed: int,
    members: Sequence[VariantAgent],
    agents: Iterable[AgentRow],
) -> list[Ending]:
    """Results of the agents of a variant.

    Raises:
        InterruptedRecipe: it was stopped.
    """
    accounts, view = system.accounts(), system.view()
    publications = course.store.systems.publications(system.row.id)
    found = []
    for member, agent in zip(members, agents, strict=True):
        paths = [
            system.library.one(one.path_id)
            for one in publications
            if one.agent_id == agent.id and one.path_id and one.cycle is not None and one.cycle >= member.since
        ]
        known = view.offers[agent.name]
        test, spent = course.measured(system, known), course.spent(system, [agent], since=member.since)
        courses: dict[Split, list[float]] = {
            "validation": [one.quality or 0.0 for one in paths],
            "test": [course.measured(system, one).accuracy for one in paths],
        }
        found.append(Ending(name, seed, member.plan.name, known, test, spent, courses, accounts[agent.name]))
    return found
