"""Settings of a system and of its agents; no torch."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.search.agent import CycleSettings as CycleSettings
from evodevo.settings import Settings

JOINT = "joint"
"""Origin of a root that several tasks train together."""
TASK_HEAD = "head_"
"""Prefix of the roles of its heads, each with the number of its task."""


class WorkSettings(Settings):
    """Limits of one child's evaluation."""

    seconds: float | None = Field(default=None, gt=0, description="wall time; None = no limit")
    memory_bytes: int | None = Field(
        default=None, gt=0, description="memory of its processes together, in bytes; None = no limit"
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=100,
        description="number of repeated evaluations of a child whose worker was killed from outside",
    )


class SystemSettings(Settings):
    """All that holds for a whole system. Recorded with it; agents may differ in what ``AgentSettings`` names."""

    version: Version = Field(
        default="paper",
        description="version of the agents' lists and rules; changes of cycle and training override it",
    )
    cycle: CycleSettings = Field(default=CycleSettings(), description="cycle of every agent without its own")
    work: WorkSettings = Field(default=WorkSettings(), description="limits of evaluations")
    training: dict[str, Any] = Field(default_factory=dict, description="training of a child, for its evaluator")
    packages: tuple[str, ...] = Field(
        default=(), description="installed packages whose classes of agents, tasks and evaluators are used"
    )


class JointTask(Settings):
    """A task that trains a root together with others.

    Attributes:
        name: name of the task.
        classes: number of its classes.
        task: settings of its data, for the evaluator.
        task_key: key of the prepared data; None opens the sources, each time.
    """

    name: str
    classes: int = Field(ge=1, le=1 << 24)
    task: dict[str, Any] = Field(default_factory=dict)
    task_key: str | None = None


class AgentSettings(Settings):
    """The settings of one agent: its task, and its differences from its system.

    Attributes:
        classes: number of classes of the task.
        task: settings of its data, for the evaluator.
        task_key: key of the prepared data; None opens the sources, each time.
        cycle: settings of cycles instead of the system's.
        training: changes of the system's training settings, key by key.
        options: options of its class.
        root: whether it makes one path and then runs no more.
        class_names: names of the classes, in order; empty where unknown.
        modalities: modalities of its samples; paths that need others are neither parents nor supports.
        inputs: inputs of a sample, each a ``tasks.inputs.InputSpec`` by field, so that a user's samples can be read
            where the data are gone; empty where unknown.
        columns: columns of the rows of a table that its samples are, each a ``tasks.rows.columns.Column`` by field;
            empty for other samples.
        builds_on: agents whose paths may be parents or supports, by name, with ``*`` for any text; ``*~root_model~*``
            are roots alone.
    """

    classes: int = Field(ge=0, le=1 << 24)
    task: dict[str, Any] = Field(default_factory=dict)
    task_key: str | None = None
    cycle: CycleSettings | None = None
    training: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    root: bool = False
    class_names: tuple[str, ...] = ()
    modalities: tuple[str, ...] = ("image",)
    inputs: tuple[dict[str, Any], ...] = ()
    columns: tuple[dict[str, Any], ...] = Field(default=(), exclude_if=lambda value: not value)
    builds_on: tuple[str, ...] = ("*",)
