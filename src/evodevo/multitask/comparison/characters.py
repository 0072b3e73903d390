"""``multitask.characters``: four ways to learn the same tasks, with equal samples, and what each leaves behind.

Every arm is a copy of one system with a trained root. A task's answer is its published path, chosen by validation; the
test split is looked at once for each path that a cycle published, when its arm has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.paired import Difference, paired_difference
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.comparison.curves import Looks, looks
from evodevo.multitask.comparison.forecast import Load, forecast
from evodevo.multitask.comparison.systems import NOTHING, RecipeRunner, Spent
from evodevo.multitask.measure import SplitMeasurement
from evodevo.multitask.recipes.settings import CharactersSettings
from evodevo.multitask.recipes.variants import ARMS, ArmName, restricted
from evodevo.multitask.schedule import is_root
from evodevo.multitask.system import System
from evodevo.storage.systems.base import AgentRow


@dataclass(frozen=True)
class TaskEnd:
    """The result of an arm on a task.

    Attributes:
        known: the published path.
        test: its measurement on the test split.
        accounted: number of its accounted parameters; shared ones are split among their users.
        spent: cost of its agent.
        looks: measurements of its published paths, cycle by cycle.
    """

    known: PublishedPath
    test: SplitMeasurement
    accounted: float
    spent: Spent
    looks: Looks


@dataclass(frozen=True)
class VariantResult:
    """The result of an arm with one seed.

    Attributes:
        arm: name of the arm.
        seed: seed of the copy.
        tasks: name of the task -> its result.
        parameters: number of distinct parameters of the system, the root's among them where the arm needs it.
    """

    arm: ArmName
    seed: int
    tasks: Mapping[str, TaskEnd]
    parameters: int

    @property
    def accuracy(self) -> float:
        """Mean over tasks, on the test splits."""
        return sum(task.test.accuracy for task in self.tasks.values()) / len(self.tasks)

    @property
    def validation(self) -> float:
        """Mean over tasks."""
        return sum(task.known.quality or 0.0 for task in self.tasks.values()) / len(self.tasks)

    @property
    def per_task(self) -> float:
        """Parameters per task."""
        return self.parameters / len(self.tasks)

    @property
    def spent(self) -> Spent:
        """Cost of all agents."""
        return sum((task.spent for task in self.tasks.values()), NOTHING)


@dataclass(frozen=True)
class RootEnd:
    """The result of the root's pretraining.

    Attributes:
        seed: seed of the copy.
        known: its path.
        spent: cost of its pretraining, which no arm counts as its own.
    """

    seed: int
    known: PublishedPath
    spent: Spent


@dataclass(frozen=True)
class CharactersEnd:
    """Everything that was measured.

    Attributes:
        roots: one for each copy.
        arms: all arms of all copies.
        differences: (arm, reference, task) -> on the same test samples.
        planned: training samples that each arm was to see, for one copy.
    """

    roots: Sequence[RootEnd]
    arms: Sequence[VariantResult]
    differences: Mapping[tuple[str, str, str], Difference]
    planned: int

    def of(self, arm: str) -> list[VariantResult]:
        """An arm's copies."""
        return [copy for copy in self.arms if copy.arm == arm]


def drive(course: RecipeRunner, settings: CharactersSettings) -> CharactersEnd:
    """Run, or go on with, all arms of all copies.

    Raises:
        InterruptedRecipe: it was stopped.
        EvaluationsFailedError: an agent came to nothing.
    """
    remaining = loads(course, settings)
    if remaining:
        expected = forecast(course, remaining)
        course.tell("plan", **expected.to_json(), words=expected.words)
    roots, arms = [], []
    for seed in seeds(settings):
        base = course.rooted(seed)
        roots.append(_root(course, base, seed))
        arms += [_arm(course, settings, base, seed, name) for name in settings.compared.arms]
    return CharactersEnd(roots, arms, differences(arms), planned(course, settings))


def seeds(settings: CharactersSettings) -> range:
    """Seeds of the copies."""
    return range(settings.study.seed, settings.study.seed + settings.study.copies)


def planned(course: RecipeRunner, settings: CharactersSettings) -> int:
    """Training samples that an arm is to see in one copy: equal for all."""
    children = settings.study.cycles * settings.study.cycle.children
    return children * sum(map(course.child_samples, settings.system.tasks))


def loads(course: RecipeRunner, settings: CharactersSettings) -> list[Load]:
    """Trainings that are still to be done."""
    waiting, whole = [], settings.study.cycles * settings.study.cycle.children
    for seed in seeds(settings):
        base = course.find("root", seed)
        if base is None or not base.recorded():
            waiting.append(root_load(course))
        for name in settings.compared.arms:
            system = course.find(name, seed)
            rows = {} if system is None else {agent.task: agent for agent in system.agents()}
            for task in settings.system.tasks:
                done = 0
                if system is not None and task.name in rows:
                    done = course.spent(system, [rows[task.name]]).children
                if done < whole:
                    looked = course.samples(task)["validation"] * course.training.validations
                    waiting.append(Load(whole - done, course.child_samples(task), looked))
    return waiting


def root_load(course: RecipeRunner) -> Load:
    """The root's pretraining."""
    plan, looks = course.settings.system.root, course.settings.evaluation.root_validations
    of_one = course.child_samples(plan) // course.training.validations
    return Load(1, looks * of_one, looks * course.samples(plan)["validation"])


def differences(arms: Sequence[VariantResult]) -> dict[tuple[str, str, str], Difference]:
    """Every arm's right answers minus those of every arm before it, task by task, over all copies."""
    names = list(dict.fromkeys(arm.arm for arm in arms))
    pairs: dict[tuple[str, str, str], Difference] = {}
    for number, name in enumerate(names):
        for reference in names[:number]:
            ours, theirs = ([copy for copy in arms if copy.arm == arm] for arm in (name, reference))
            for task in ours[0].tasks:
                pair = [[_right(arm.tasks[task].test) for arm in side] for side in (ours, theirs)]
                difference = paired_difference(pair[0], pair[1])
                if difference is not None:
                    pairs[name, reference, task] = difference
    return pairs


# Inside


def _root(course: RecipeRunner, base: System, seed: int) -> RootEnd:
    agent = course.root_agent(base)
    assert agent is not None
    return RootEnd(seed, base.view().offers[agent.name], course.spent(base, [agent]))


def _arm(course: RecipeRunner, settings: CharactersSettings, base: System, seed: int, name: ArmName) -> VariantResult:
    arm = ARMS[name]
    system = course.fork(base, name, seed)
    agents: list[AgentRow] = []
    for task in settings.system.tasks:
        own = {"builds_on": arm.builds_on, "cycle": restricted(settings.study.cycle, arm)}
        agents.append(course.agent(system, course.kind, task.name, course.facts(task).model_copy(update=own)))
    course.tell("arm", arm=name, seed=seed, system=system.row.name)
    course.run(system, agents, settings.study.cycles)
    accounts, view = system.accounts(), system.view()
    ends = {}
    for agent in agents:
        known = view.offers[agent.name]
        test = course.measured(system, known)
        spent, seen = course.spent(system, [agent]), looks(course, system, agent)
        ends[agent.task] = TaskEnd(known, test, accounts[agent.name], spent, seen)
    return VariantResult(name, seed, ends, _parameters(system, root=arm.needs_root))


def _parameters(system: System, *, root: bool) -> int:
    """Distinct ones of all published paths."""
    view = system.view()
    paths = [known for name, known in view.offers.items() if root or not is_root(view.agents[name])]
    return sum({part.id: part.parameters for known in paths for part in known.components}.values())


def _right(test: SplitMeasurement) -> Any:
    assert test.right is not None, "measured by this recipe"
    return unpack(test.right)
