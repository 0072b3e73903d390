"""The systems of a recipe: made where they are missing, gone on with where they are not.

Their names follow from the recipe, its settings, and what each is for: a recipe that was killed finds them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evodevo import canonical
from evodevo.execution.base import Executor
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.fork import fork
from evodevo.multitask.genome import agent_name
from evodevo.multitask.measure import SplitMeasurement, measure, measured
from evodevo.multitask.recipes.settings import MultitaskRecipeSettings, TaskPlan
from evodevo.multitask.recipes.variants import ROOTS
from evodevo.multitask.recorded import cpu_seconds_of, deciding
from evodevo.multitask.schedule import past
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.system import ROOT_TASK, System
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.multitask.transfer.table import recorded
from evodevo.search.members import Listener
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow
from evodevo.tasks.multitask.task import MultitaskTask
from evodevo.tasks.text.token_cache import default_folder

PRETRAIN = "pretrain"


class InterruptedRecipe(Exception):
    """It was stopped; the same call resumes it."""


@dataclass
class RecipeSession:
    """A recipe under way.

    Attributes:
        recipe, size: name and size of the recipe.
        label: beginning of the names of its systems.
        stopped: whether a stop was requested.
    """

    recipe: str
    size: str
    label: str
    stopped: bool = False
    system: System | None = None

    def stop(self) -> None:
        """End soon; children that are under way are done again when it goes on."""
        self.stopped = True
        if self.system is not None:
            self.system.stop()


@dataclass(frozen=True)
class Spent:
    """The cost of agents.

    Attributes:
        children: number of children with a result.
        failed: number of failed ones among them.
        samples: number of training samples.
        seconds: wall time of the children, in seconds.
        cpu_seconds: CPU time of the children and of the probes before them, in seconds; None where one is not known: of
            a child that was killed, or was recorded by an earlier version.
    """

    children: int
    failed: int
    samples: int
    seconds: float
    cpu_seconds: float | None

    def __add__(self, other: Spent) -> Spent:
        known = self.cpu_seconds is not None and other.cpu_seconds is not None
        return Spent(
            self.children + other.children,
            self.failed + other.failed,
            self.samples + other.samples,
            self.seconds + other.seconds,
            (self.cpu_seconds or 0.0) + (other.cpu_seconds or 0.0) if known else None,
        )


NOTHING = Spent(0, 0, 0, 0.0, 0.0)


class RecipeRunner:
    """The runner of a recipe: makes its systems and runs their agents.

    Args:
        store: store of the systems.
        settings: settings of the recipe.
        session: session whose ``stopped`` ends the run.
        executor: makes the workers, when they are needed for the first time.
        cache: folder of prepared data; None is the user's.
        listener: called with events.
    """

    def __init__(
        self,
        store: Store,
        settings: MultitaskRecipeSettings,
        session: RecipeSession,
        executor: Callable[[], Executor],
        cache: str | None,
        listener: Listener | None,
    ) -> None:
        self.store, self.settings, self.session = store, settings, session
        self.cache = cache or str(default_folder())
        self.kind = settings.system.agent.kind
        self._executor = executor
        self._listener = listener or (lambda kind, facts: None)
        self._facts: dict[str, tuple[AgentSettings, dict[str, int]]] = {}

    @property
    def executor(self) -> Executor:
        """The workers."""
        return self._executor()

    @property
    def seeds(self) -> range:
        """Seeds of the copies."""
        study = self.settings.study
        return range(study.seed, study.seed + study.copies)

    @property
    def training(self) -> PathTrainingSettings:
        """Training settings of every child but a root."""
        return self.settings.evaluation.training

    # Tasks

    def facts(self, plan: TaskPlan) -> AgentSettings:
        """A task as its agents record it.

        Raises:
            DataError, NotFoundError, UsageError: its data cannot be used.
        """
        return self._task(plan)[0]

    def samples(self, plan: TaskPlan) -> dict[str, int]:
        """Samples of a task, by split."""
        return self._task(plan)[1]

    def child_samples(self, plan: TaskPlan) -> int:
        """Number of training samples of one child, at least."""
        count = self.samples(plan)
        training = validate(
            PathTrainingSettings,
            {**self.training.model_dump(mode="json"), **plan.training},
            what=f"training of the task {plan.name!r}",
        )
        course = training.plan(count["train"], count["validation"], plan.source.batch)
        return course.batch * course.between * training.validations

    def _task(self, plan: TaskPlan) -> tuple[AgentSettings, dict[str, int]]:
        key = canonical.dumps(plan.model_dump(mode="json"))
        if key not in self._facts:
            task = MultitaskTask.open(plan.source, Path(self.cache))
            facts = AgentSettings(
                classes=task.classes,
                task=plan.source.model_dump(mode="json"),
                task_key=task.key,
                class_names=task.outputs[0].names,
                modalities=tuple(dict.fromkeys(spec.modality for spec in task.inputs)),
                options={"hyperparameters": self.settings.system.agent.hyperparameters},
                cycle=plan.cycle,
                training=plan.training,
                builds_on=self._builds_on(plan),
            )
            self._facts[key] = facts, task.describe()["samples"]
        return self._facts[key]

    def _builds_on(self, plan: TaskPlan) -> tuple[str, ...]:
        if plan.reads is None:
            return ("*",)
        return (ROOTS, *(agent_name(self.kind, name) for name in (plan.name, *plan.reads)))

    # Systems

    def name(self, *parts: str | int) -> str:
        """Name of a system of this recipe."""
        return ".".join([self.session.label, *map(str, parts)])

    def find(self, *parts: str | int) -> System | None:
        """A system of this recipe, where it was made already."""
        wanted = self.name(*parts)
        row = next((system for system in self.store.systems.systems() if system.name == wanted), None)
        return None if row is None else self._open_system(row.name)

    def rooted(self, seed: int) -> System:
        """The system of a root alone, trained on its data."""
        made = self.find("root", seed)
        if made is None:
            System.create(self.store, self.name("root", seed), seed=seed, settings=self.system_settings)
            made = self._open_system(self.name("root", seed))
        root = self.root_agent(made)
        if root is None:
            made.add_root(self.kind, PRETRAIN, self.root_settings)
            root = self.root_agent(made)
            assert root is not None
        self.run(made, [root], 1)
        return made

    @property
    def system_settings(self) -> SystemSettings:
        """Settings of every system."""
        return SystemSettings(
            cycle=self.settings.study.cycle,
            work=self.settings.evaluation.work,
            training=self.training.model_dump(mode="json"),
            packages=self.settings.execution.packages,
        )

    @property
    def root_settings(self) -> AgentSettings:
        """Settings of the root's agent."""
        facts, agent = self.facts(self.settings.system.root), self.settings.system.agent
        options = {**facts.options, "structure": agent.structure}
        changes = {"validations": self.settings.evaluation.root_validations}
        return facts.model_copy(update={"options": options, "training": changes})

    def root_agent(self, system: System) -> AgentRow | None:
        """The root of a system."""
        name = agent_name(self.kind, f"{ROOT_TASK}/{PRETRAIN}")
        return next((agent for agent in system.agents() if agent.name == name), None)

    def fork(self, system: System, *parts: str | int) -> System:
        """A copy of a system, to be gone on with."""
        self.check()
        return self._open_system(fork(system, self.name(*parts)).row.name)

    def agent(self, system: System, kind: str, task: str, settings: AgentSettings) -> AgentRow:
        """An agent of a system; added where it is not there."""
        name = agent_name(kind, task)
        agent = next((row for row in system.agents() if row.name == name), None)
        return agent or system.add_agent(kind, task, settings)

    # Running

    def check(self) -> None:
        """
        Raises:
            InterruptedRecipe: it was stopped.
        """
        if self.session.stopped:
            raise InterruptedRecipe

    def run(self, system: System, agents: Sequence[AgentRow], cycles: int) -> None:
        """Let agents run until each has ended so many cycles."""
        self.check()
        before = past(self.store, system.row.id)
        if all(before.finished(agent) >= cycles for agent in agents):
            return
        self.session.system = system
        state = system.run(agents, cycles, self.executor, cache=self.cache).state
        if state == "interrupted":
            raise InterruptedRecipe

    def measured(self, system: System, known: PublishedPath) -> SplitMeasurement:
        """Measurement of a path on its task's test split; made once."""
        measurement = measured(system, known)
        if measurement is None:
            self.check()
            measure(system, known, self.executor, cache=self.cache)
            measurement = measured(system, known)
            assert measurement is not None
        return measurement

    def spent(self, system: System, agents: Sequence[AgentRow], *, since: int = 0) -> Spent:
        """Cost of agents from a cycle on."""
        whole = NOTHING
        for agent in agents:
            rows = [row for row in self.store.individuals(agent.id) if row.generation >= since]
            probes = None if since else recorded(self.store, agent.id)
            if probes is not None:
                whole += Spent(0, 0, 0, 0.0, probes.cpu_seconds)
            results = self.store.systems.evaluations_of([row.id for row in rows])
            for row in rows:
                result = deciding(results[row.id])
                if result is not None:
                    seen = int(result.extra.get("answer", {}).get("samples", 0))
                    failed, worked = int(result.state == "failed"), cpu_seconds_of(result)
                    whole += Spent(1, failed, seen, result.seconds, worked)
        return whole

    def report(self, kind: str, **facts: object) -> None:
        """Pass an event to the listener."""
        self._listener(kind, dict(facts))

    def _open_system(self, name: str) -> System:
        def report(kind: str, facts: dict[str, object]) -> None:
            if self.session.stopped and self.session.system is not None:
                self.session.system.stop()  # a wish from before the run began counts, too
            self._listener(kind, {"system": name, **facts})

        return System.open(self.store, name, listener=report)
