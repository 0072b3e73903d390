"""Roots, as a user asks for them: at random, trained on a task, or from a checkpoint.

Source: docs/spec/munet.md#agents. Nothing is recorded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evodevo.errors import NotFoundError, UsageError, unknown_name
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.roots.files import BUILTIN, builtin_root, root_file
from evodevo.multitask.rules import OURS
from evodevo.multitask.run.checks import check_class, check_modalities
from evodevo.multitask.run.settings import prepare_task, table_of, with_own
from evodevo.multitask.settings import JOINT, AgentSettings, SystemSettings
from evodevo.multitask.system import System, checked_name
from evodevo.storage.systems.base import AgentRow

RANDOM, PRETRAIN, CHECKPOINT = "random_init", "pretrain", "checkpoint"
FLAT_COURSE: Mapping[str, int] = {"steps": 500, "most_steps": 20_000}
"""Training of a root where nobody says how long: by steps, until its validation is flat. In its place the paper has
weights of ImageNet-21k; a few passes over a small set make no root."""
COURSE = ("steps", "most_between", "least_between", "least_steps")
"""Settings of training that say how long."""
USUAL: Mapping[str, str] = {"rows": "MlpSmall", "text_labels": "NgramSmall"}
"""Source of samples -> the class of the root at random that a task gets where no root can read its samples. It costs
nothing, and belongs to no table and no text."""
ROOTS = (RANDOM, PRETRAIN, CHECKPOINT, BUILTIN.removesuffix(":"), JOINT)


@dataclass(frozen=True)
class PlannedRoot:
    """A root before it is recorded.

    Attributes:
        kind: its class of agents.
        how: origin of its weights, such as ``pretrain``.
        name: name of the task that it is trained on; None where there is none.
        settings: settings of its agent.
        samples: number of its task's samples by split; empty where there is none.
    """

    kind: str
    how: str
    name: str | None
    settings: AgentSettings
    samples: Mapping[str, int]

    def add_to(self, system: System) -> AgentRow:
        """Record it."""
        return system.add_root(self.kind, self.how, self.settings, name=self.name)


def default_root(kind: str, given: Mapping[str, Any]) -> str:
    """The root where nobody names one: that of the package for a class which has one, else one at random.

    Args:
        kind: its class of agents.
        given: nested settings of the root; one of another structure is made at random.

    Raises:
        UsageError: no such class.
    """
    check_class(kind)
    known: str | None = getattr(AGENTS.get(kind), "usual_root", None)
    return RANDOM if known is None or "structure" in given else known


def plan_root(
    root: str,
    kind: str,
    data: str | Path | None,
    given: Mapping[str, Any],
    system: SystemSettings,
    cache_folder: Path | None,
) -> PlannedRoot:
    """Check a root, and read the data of its task.

    Args:
        root: ``random_init``, ``pretrain:NAME``, ``checkpoint:FOLDER``, ``checkpoint:FILE.safetensors`` or
            ``builtin:NAME``.
        kind: its class of agents.
        data: data of the task NAME.
        given: nested settings of the root.
        system: settings of its system.
        cache_folder: folder of prepared data.

    Raises:
        UsageError, DataError: something cannot be used.
        NotFoundError: no such folder or file.
    """
    check_class(kind)
    how, word = _words_of(root)
    own = dict(given)
    if "cycle" in own:
        raise UsageError("a root has one cycle of one child; root.cycle cannot be set.")
    agent = AgentSettings(classes=0)
    samples: Mapping[str, int] = {}
    if how == PRETRAIN:
        checked_name(kind, word)
        agent, samples, *_ = prepare_task(word, data, table_of("task", own.pop("task", {})), cache_folder)
        check_modalities(kind, word, agent)
        version = own.get("version", system.version)
        given_course = {*system.training, *table_of("training", own.get("training", {}))} & {*COURSE}
        if version == OURS and not given_course:
            agent = agent.model_copy(update={"training": dict(FLAT_COURSE)})
    elif data is not None or "task" in own:
        raise UsageError(f"only a root that is pretrained has data; {root} has none. Give --root pretrain:NAME.")
    ours = how == CHECKPOINT and root_file(word) is not None
    if ours and "structure" in own:
        raise UsageError(f"{word} has a structure of its own; leave root.structure out, or take --root random_init.")
    agent = with_own(kind, agent, system, own, root=how != CHECKPOINT or ours)
    if how == CHECKPOINT:
        agent = agent.model_copy(update={"options": {**agent.options, CHECKPOINT: word}})
    return PlannedRoot(kind, how, word if how == PRETRAIN else None, agent, samples)


def _words_of(text: str) -> tuple[str, str]:
    how, colon, word = text.partition(":")
    if how not in ROOTS:
        raise unknown_name("root", how, ROOTS)
    if how == JOINT:
        raise UsageError(
            "a joint root is trained by tasks that a system has: make the system, add its tasks, then evodevo extend "
            "create SYSTEM --beside --root joint."
        )
    if bool(word) != (how != RANDOM) or (colon and how == RANDOM):
        raise UsageError(
            "a root is random_init, builtin:NAME, pretrain:NAME, checkpoint:FOLDER or checkpoint:FILE.safetensors; got "
            f"{text[:80]!r}."
        )
    if builtin_root(text) is not None:
        return CHECKPOINT, text
    if how == CHECKPOINT:
        file = root_file(word)
        if file is not None:
            return CHECKPOINT, str(file)
        folder = Path(word).expanduser().resolve()
        if not folder.is_dir():
            raise NotFoundError(f"no folder of a checkpoint at {folder}.")
        return CHECKPOINT, str(folder)
    return (PRETRAIN, word) if how == PRETRAIN else (RANDOM, "")
