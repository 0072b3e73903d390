"""Memory of edits in earlier runs, their rewards, and their gains where forks measured them, as a file of JSON lines.

Source: docs/spec/architect_thyself.md#edit-memory.

JSON lines: the first names the format and the size of a genotype's vector, each other is one edit. A policy is warmed
by it twice: it imitates what was rewarded (``learned.imitate``), and its prior leans to what was. A model of gains is
fitted on those that forks measured (``gains``).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.growth.strategists.spec import MemorySettings
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Transition
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.module_zoo.modules.vector import VECTOR_SIZE
from evodevo.settings import Settings, validate

FORMAT = "evodevo.edit_memory/1"
MOST = 10_000
"""Largest number of edits kept; the oldest go first."""
DIGITS = 5


class RememberedEdit(Settings):
    """One sub-action of an earlier run.

    Attributes:
        state, legal: State and legal actions of the decision, rounded, without the reasons.
        action: Action that was taken, ``noop`` included.
        reward: Reward of its event.
        child: Genotype of the newborn, or of the module that was edited in place; None for other actions.
        gain: What a fork measured of the edits of its event; None where none did.
    """

    state: State
    legal: Legal
    action: Action
    reward: float
    child: ModuleGenotype | None = None
    gain: MeasuredGain | None = Field(default=None, exclude_if=lambda value: value is None)


@dataclass(frozen=True)
class EditMemory:
    """Edits, oldest first; a value: ``with_event`` returns the next one."""

    edits: tuple[RememberedEdit, ...] = ()

    def with_event(self, transition: Transition, children: Mapping[int, ModuleGenotype] | None = None) -> EditMemory:
        """This memory and one more event.

        Args:
            transition: The event and its reward.
            children: Genotypes of newborns, by the index of their sub-action.
        """
        state = State.model_validate(_rounded(transition.state.model_dump()))
        new = tuple(
            RememberedEdit(
                state=state,
                legal=decision.legal.model_copy(update={"reasons": {}}),
                action=decision.action,
                reward=transition.reward,
                child=(children or {}).get(place),
                gain=transition.gain if decision.action.operation != "noop" else None,
            )
            for place, decision in enumerate(transition.decisions)
            # A ``noop`` that only ends an event did not earn its reward.
            if place == 0 or decision.action.operation != "noop"
        )
        return EditMemory((self.edits + new)[-MOST:])

    def advantages(self, doubt: float) -> tuple[float, ...]:
        """Excess of each edit's reward over the mean, divided by the root mean square of all; 0 where all are 0.

        Training itself raises validation, so that the mean must be subtracted; with few edits it is shrunk towards 0.
        """
        rewards = [edit.reward for edit in self.edits]
        scale = math.sqrt(statistics.fmean([reward**2 for reward in rewards])) if rewards else 0.0
        if scale < 1e-12:
            return (0.0,) * len(rewards)
        usual = sum(rewards) / (len(rewards) + doubt)
        return tuple((reward - usual) / scale for reward in rewards)

    def lean(self, settings: MemorySettings) -> dict[str, float]:
        """Shift of the logit of an operation on a family, from the mean advantage of such edits.

        Returns:
            Shift by ``kinds_of``, within +-``bias``; few edits count less.
        """
        rewards: dict[str, list[float]] = defaultdict(list)
        for edit, advantage in zip(self.edits, self.advantages(settings.doubt), strict=True):
            for kind in kinds_of(edit.action, edit.state):
                rewards[kind].append(advantage)
        return {
            kind: settings.bias * math.tanh(statistics.fmean(each)) * len(each) / (len(each) + settings.doubt)
            for kind, each in sorted(rewards.items())
        }

    def dumps(self) -> str:
        """JSON lines; ``EditMemory.loads(memory.dumps()) == memory``."""
        head = canonical.dumps({"format": FORMAT, "vector": VECTOR_SIZE})
        lines = (canonical.dumps(edit.model_dump(mode="json")) for edit in self.edits)
        return "\n".join((head, *lines)) + "\n"

    @classmethod
    def loads(cls, text: str, *, what: str = "the memory of edits") -> EditMemory:
        """Read what ``dumps`` wrote.

        Raises:
            UsageError: Another version, another size of genotypes, or a line that is no edit.
        """
        head, *lines = text.splitlines() or [""]
        _check(canonical.loads(head, what=f"{what}, line 1"), what)
        if len(lines) > MOST:
            raise UsageError(f"{what} has {len(lines)} edits; at most {MOST} are read.")
        return cls(tuple(_read(line, f"{what}, line {number}") for number, line in enumerate(lines, 2)))


def kinds_of(action: Action, state: State) -> tuple[str, ...]:
    """The operation, and the operation with the families concerned: keys that two runs have in common."""
    families = {module.id: module.archetype for module in state.modules}
    about = [*(families[name] for name in action.modules), *([action.archetype] if action.archetype else [])]
    return (action.operation, f"{action.operation}:{'+'.join(about)}") if about else (action.operation,)


def _check(head: Any, what: str) -> None:
    version = head.get("format") if isinstance(head, dict) else None
    if version != FORMAT:
        raise UsageError(
            f"{what} has the format {str(version)[:80]!r}; this evodevo reads {FORMAT!r}. Move it away, "
            "or run without it (memory=false)."
        )
    if head.get("vector") != VECTOR_SIZE:
        raise UsageError(
            f"{what} describes modules by {head.get('vector')} numbers; this evodevo does by {VECTOR_SIZE}. Move it "
            "away, or run without it (memory=false)."
        )


def _read(line: str, what: str) -> RememberedEdit:
    values = canonical.loads(line, what=what)
    if not isinstance(values, dict):
        raise UsageError(f"{what} is no edit.")
    edit = validate(RememberedEdit, values, what=what)
    known = {module.id for module in edit.state.modules}
    legal = edit.legal
    paired = (name for pair in legal.hybridise for name in pair)
    edited = (name for _, names in legal.in_place for name in names)
    replaced = (name for name, _ in legal.replace)
    for name in (*legal.prune, *legal.grow, *legal.rewarm, *edit.action.modules, *paired, *edited, *replaced):
        if name not in known:
            raise UsageError(f"{what} is about the module {name!r}, which is not in its zoo.")
    if not legal.allows(edit.action):
        raise UsageError(f"{what} holds an action that was not legal.")
    if any(len(module.vector) != VECTOR_SIZE for module in edit.state.modules):
        raise UsageError(f"{what} holds a module that is not described by {VECTOR_SIZE} numbers.")
    return edit


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_rounded(item) for item in value)
    return value
