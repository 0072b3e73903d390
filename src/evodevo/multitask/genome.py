"""A path of a multitask system as plain data: which components, in which order, trained with which hyperparameters.

µNet (2205.10937) and µ4Net (2302.02721); docs/spec/munet.md#paths. A path is the genome of an individual
of its agent's run; weights lie in the blobs of its components, which several paths share.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.settings import Settings

Value = bool | int | float | str
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(?:~[A-Za-z0-9][A-Za-z0-9_.-]{0,99}){1,4}", re.ASCII)
"""Pattern of an agent's name: ``Class~task``, where a task's ``/`` is written ``~``."""
COMPONENT = re.compile(NAME.pattern + r":[0-9]{1,12}", re.ASCII)


class ComponentUse(Settings):
    """A component where a path needs it.

    Attributes:
        role: its place in the architecture ("encoderblock_0", "head", "router").
        id: "agent:number" of its maker; unique in a system, and never used twice.
    """

    role: str = Field(min_length=1, max_length=100)
    id: str = Field(pattern=f"^{COMPONENT.pattern}$")


class SubPath(Settings):
    """Another agent's path, whole and frozen, inside a multipath one.

    Attributes:
        agent: name of its agent.
        number: number of the path.
    """

    agent: str = Field(pattern=f"^{NAME.pattern}$")
    number: int = Field(ge=0)


class Path(Settings):
    """One path.

    Attributes:
        agent: name of its agent.
        number: counted by its agent, from 0.
        task: name of its task.
        classes: number of classes of the task; 0 is headless.
        kind: kind of the path: a row of the table of paths ("vision_path", "multipath").
        structure: structure of that kind, as plain data.
        hparams: every tunable value by name, without the mutation function.
        mu: the learned mutation function: ``_mu_`` and ``_mu_|<action>`` -> probability.
        components: its components, in the order in which a sample passes them.
        paths: for a multipath one, its paths, the main one first.
    """

    agent: str = Field(pattern=f"^{NAME.pattern}$")
    number: int = Field(ge=0)
    task: str = Field(min_length=1, max_length=200)
    classes: int = Field(ge=0)
    kind: Literal["vision_path", "multipath"] | str = "vision_path"
    structure: dict[str, Any] = Field(default_factory=dict)
    hparams: dict[str, Value] = Field(default_factory=dict)
    mu: dict[str, float] = Field(default_factory=dict)
    components: tuple[ComponentUse, ...] = ()
    paths: tuple[SubPath, ...] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        roles = [part.role for part in self.components]
        if len(set(roles)) != len(roles):
            raise ValueError("a path has each role once")
        agents = [path.agent for path in self.paths]
        if len(set(agents)) != len(agents):
            raise ValueError("a multipath path takes one path of an agent")
        return self

    @property
    def id(self) -> str:
        """``agent/number``."""
        return f"{self.agent}/{self.number}"


def agent_name(kind: str, task: str) -> str:
    """``Class~task``; a ``/`` of the task is written ``~``.

    Raises:
        ValueError: a task whose name holds ``~`` already, or what no name may hold.
    """
    name = f"{kind}~{task.replace('/', '~')}"
    if "~" in task or not NAME.fullmatch(name):
        raise ValueError(f"{task!r} is no name of a task: letters, digits, '_', '-' and '.'")
    return name
