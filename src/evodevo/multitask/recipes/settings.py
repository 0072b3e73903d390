"""Settings of recipes of multitask systems: tasks, root, training of agents, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from evodevo.multitask.paths.multipath_spec import MultipathStructure
from evodevo.multitask.recipes.variants import ARMS, ArmName
from evodevo.multitask.settings import CycleSettings, WorkSettings
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.runs.recipe import ExecutionSettings, RunSettings
from evodevo.settings import Settings
from evodevo.tasks.multitask.task import MultitaskSettings


class TaskPlan(Settings):
    """A task by its name in the systems, and where its samples come from.

    Attributes:
        name: its name.
        source: its samples.
        reads: tasks whose paths may be its parents or supports, besides roots and its own; None = all.
        cycle: settings of its cycles; None = those of all.
        training: changes of the training of its children, key by key.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=60)
    source: MultitaskSettings = MultitaskSettings()
    reads: tuple[str, ...] | None = Field(default=None, exclude_if=lambda value: value is None)
    cycle: CycleSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    training: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda value: not value)

    def of_copy(self, seed: int) -> TaskPlan:
        """The task in one copy: where it has few samples, they are other ones in each copy."""
        few = self.source.few
        if few is None:
            return self
        drawn = few.model_copy(update={"draw": few.draw + seed})
        return self.model_copy(update={"source": self.source.model_copy(update={"few": drawn})})


class AgentPlan(Settings):
    """The class of the agents, and the structure of their paths.

    Attributes:
        kind: class of singlepath agents; a row of ``AGENTS``.
        structure: changes of the class's preset for the root.
        hyperparameters: lists of values that differ from the class's, for root and agents alike.
    """

    kind: str
    structure: dict[str, Any] = Field(default_factory=dict)
    hyperparameters: dict[str, dict[str, Any]] = Field(default_factory=dict)


class FlatPlan(Settings):
    """The rule by which cycles go on until validation is flat.

    Attributes:
        cycles: number of cycles in a row without a rise, after which a path counts as converged.
        rise: rise of the best quality on validation over these cycles, 0 to 1, that counts as one if it is exceeded.
        most: number of cycles after which an agent ends all the same.
    """

    cycles: int = Field(default=2, ge=1, le=1000)
    rise: float = Field(default=0.005, ge=0, le=1)
    most: int = Field(default=12, ge=1, le=10_000)

    def ends(self, qualities: Sequence[float]) -> bool:
        """Whether an agent has ended.

        Args:
            qualities: best quality on validation after each of its cycles, 0 to 1.
        """
        if len(qualities) >= self.most:
            return True
        return len(qualities) > self.cycles and qualities[-1] - qualities[-1 - self.cycles] <= self.rise


class StudyPlan(Settings):
    """The numbers of cycles and of copies.

    Attributes:
        seed: seed of the first copy; the next one has the next seed.
        copies: number of copies of everything, each with its own seed.
        cycles: number of cycles of each agent.
        extra: number of further cycles, where continuations of the same systems are compared.
        flat: the end of the cycles of tasks that are compared, where continuations are; None = after ``cycles``.
        cycle: settings of every cycle.
    """

    seed: int = Field(default=0, ge=0)
    copies: int = Field(default=1, ge=1, le=1000)
    cycles: int = Field(default=1, ge=1, le=10_000)
    extra: int = Field(default=1, ge=1, le=10_000)
    flat: FlatPlan | None = Field(default=None, exclude_if=lambda value: value is None)
    cycle: CycleSettings = CycleSettings()


class EvaluationPlan(Settings):
    """The training of a child.

    Attributes:
        training: training settings of every child.
        root_validations: number of validations in the root's pretraining, which is one long child.
        work: limits of a child's evaluation.
    """

    training: PathTrainingSettings = PathTrainingSettings()
    root_validations: int = Field(default=4, ge=1, le=10_000)
    work: WorkSettings = WorkSettings()


class SystemPlan(Settings):
    """The tasks and agents of the systems.

    Attributes:
        tasks: tasks of the agents, in this order.
        root: task of the root's pretraining; it is no task of the systems.
        agent: class of the agents and structure of their paths.
    """

    tasks: tuple[TaskPlan, ...] = Field(min_length=2, max_length=1000)
    root: TaskPlan
    agent: AgentPlan

    @model_validator(mode="after")
    def _tasks_are_told_apart(self) -> Self:
        names = [task.name for task in (*self.tasks, self.root)]
        if len(set(names)) != len(names):
            raise ValueError(f"tasks and root data have different names; got {', '.join(names)}")
        unknown = [name for task in self.tasks for name in task.reads or () if name not in names[:-1]]
        if unknown:
            raise ValueError(f"{unknown[0]!r}, which a task reads, is none of the tasks {', '.join(names[:-1])}")
        return self


class MultitaskRecipeSettings(RunSettings):
    """The common settings of both recipes.

    Attributes:
        system: tasks, root and agents.
        study: numbers of cycles and of copies.
        evaluation: training of a child.
        execution: settings of the workers.
    """

    system: SystemPlan
    study: StudyPlan  # type: ignore[assignment]  # agents of systems, not a study's generations
    evaluation: EvaluationPlan
    execution: ExecutionSettings = ExecutionSettings()


class CharactersPlan(Settings):
    """The arms that ``multitask.characters`` compares.

    Attributes:
        arms: rows of ``ARMS``; without any, all that have room in the cycles, in their order.
    """

    arms: tuple[ArmName, ...] = ()


class CharactersSettings(MultitaskRecipeSettings):
    """All settings of ``multitask.characters``."""

    compared: CharactersPlan = CharactersPlan()

    @model_validator(mode="after")
    def _cycles_have_room(self) -> Self:
        if self.study.cycles < 2 and any(ARMS[name].joins for name in self.compared.arms):
            raise ValueError("the root that all tasks train together takes half of the cycles; give study.cycles = 2")
        return self

    @property
    def arms(self) -> tuple[ArmName, ...]:
        """The arms that are compared."""
        room = self.study.cycles > 1
        return self.compared.arms or tuple(name for name in get_args(ArmName) if room or not ARMS[name].joins)


class MultipathVariant(Settings):
    """One continuation of the same systems.

    Attributes:
        name: name of the row.
        agent: ``multipath``; ``singlepath``, which continues as before; or ``head``, which trains a new head alone on
            the main path.
        structure: structure of a multipath agent.
        options: further options of a multipath agent, such as ``most_paths`` and ``hyperparameters``.
        first: the task whose path is always the first support; None draws it.
        extra: number of further cycles; None = that of all.
    """

    name: str = Field(pattern=r"^[a-z0-9_.]+$", max_length=60)
    agent: Literal["multipath", "singlepath", "head"] = "multipath"
    structure: MultipathStructure = MultipathStructure()
    options: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda value: not value)
    first: str | None = None
    extra: int | None = Field(default=None, ge=1, le=10_000, exclude_if=lambda value: value is None)


class VariantsPlan(Settings):
    """The variants that ``multitask.multipath`` compares.

    Attributes:
        targets: tasks that are measured; chosen beforehand.
        variants: the compared variants.
        reference: the variant that all others are compared with.
    """

    targets: tuple[str, ...] = Field(min_length=1)
    variants: tuple[MultipathVariant, ...] = Field(min_length=2)
    reference: str = "full"

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [variant.name for variant in self.variants]
        if len(set(names)) != len(names) or self.reference not in names:
            raise ValueError(f"variants have different names, {self.reference!r} among them; got {', '.join(names)}")
        return self


class MultipathRecipeSettings(MultitaskRecipeSettings):
    """All settings of ``multitask.multipath``."""

    compared: VariantsPlan

    @model_validator(mode="after")
    def _tasks_are_known(self) -> Self:
        tasks = {task.name for task in self.system.tasks}
        named = (*self.compared.targets, *(variant.first for variant in self.compared.variants if variant.first))
        unknown = [name for name in named if name not in tasks]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of the tasks {', '.join(sorted(tasks))}")
        return self
