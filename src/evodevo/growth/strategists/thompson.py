"""The strategist that draws: Thompson sampling over a linear model of measured gains.

Source: docs/spec/architect_thyself.md#gains-of-edits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.base import Strategist, StrategistState
from evodevo.growth.strategists.edit_memory import EditMemory, RememberedEdit
from evodevo.growth.strategists.gains.features import NAMES, edit_features
from evodevo.growth.strategists.gains.held_out import rows_of
from evodevo.growth.strategists.gains.regression import Posterior, fit
from evodevo.growth.strategists.heuristic import rule
from evodevo.growth.strategists.spec import StrategistSettings
from evodevo.growth.strategists.state import SPREAD, Legal, State
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.settings import Settings, validate


class Known(Settings):
    """The plain half of its state.

    Attributes:
        strategist: Name of the strategist.
        features: Names of the features.
    """

    strategist: str
    features: tuple[str, ...]


class Thompson(Strategist):
    """Draws the weights of the model from their posterior, and takes the legal edit with the greatest gain under them.

    To do nothing has the gain 0. The model knows the gains that forks measured, those of earlier runs and of this one,
    where an event had one action. Without any it draws from its prior.
    """

    name = "thompson"
    learns = True
    foresees = True

    def __init__(self, settings: StrategistSettings, *, actions: int = 3, seed: int = 0) -> None:
        super().__init__(settings, actions=actions, seed=seed)
        self._take(np.zeros((0, len(NAMES))), np.zeros(0))

    @property
    def posterior(self) -> Posterior:
        """The distribution of the model's weights."""
        return self._posterior

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        actions = [
            _with_numbers(action, rng)
            for operation in legal.operations
            if operation != "noop"
            for action in legal.targets(operation)
        ]
        best = Action(operation="noop")
        if actions:
            gains = self._posterior.drawn(np.stack([edit_features(state, action) for action in actions]), rng)
            place = int(gains.argmax())
            if gains[place] > 0:
                best = actions[place]
        return Decision(legal=legal, action=best, prior=rule(state, legal, self.settings.heuristic))

    def update(self, transitions: Sequence[Transition]) -> dict[str, float]:
        """Learn what forks measured."""
        new = [
            RememberedEdit(
                state=transition.state,
                legal=decision.legal,
                action=decision.action,
                reward=transition.reward,
                gain=transition.gain,
            )
            for transition in transitions
            for decision in transition.decisions
            if transition.gain is not None and decision.action.operation != "noop"
        ]
        if not self._add(new):
            return {}
        return {"gains": float(self._posterior.rows), "noise": self._posterior.noise}

    def remember(self, memory: EditMemory) -> int:
        """Learn the measured gains of earlier runs."""
        return self._add(memory.edits)

    def _add(self, edits: Sequence[RememberedEdit]) -> int:
        rows = rows_of(edits)
        if len(rows.gains):
            self._take(np.concatenate([self._features, rows.features]), np.concatenate([self._gains, rows.gains]))
        return len(rows.gains)

    def _take(self, features: np.ndarray, gains: np.ndarray) -> None:
        self._features, self._gains = features, gains
        self._posterior = fit(features, gains, self.settings.gains.prior)

    def state_dict(self) -> StrategistState:
        """The rows, from which the posterior follows."""
        tensors = {"features": torch.from_numpy(self._features.copy()), "gains": torch.from_numpy(self._gains.copy())}
        return StrategistState(tensors, Known(strategist=self.name, features=NAMES).model_dump(mode="json"))

    def load_state_dict(self, snapshot: StrategistState) -> None:
        """Restore a snapshot.

        Raises:
            UsageError: Another strategist, other features, or rows of another shape.
        """
        known = validate(Known, dict(snapshot.data), what=f"what the strategist {self.name!r} had learnt")
        if (known.strategist, known.features) != (self.name, NAMES):
            raise UsageError(
                f"what was learnt belongs to the strategist {known.strategist!r} with {len(known.features)} features; "
                f"this one is {self.name!r} with {len(NAMES)}, of which some are others."
            )
        shapes = {name: tuple(tensor.shape) for name, tensor in snapshot.tensors.items()}
        gains = shapes.get("gains", ())
        if len(gains) != 1 or shapes != {"features": (gains[0], len(NAMES)), "gains": gains}:
            raise UsageError(f"what the strategist {self.name!r} had learnt is no gains with features: {shapes}.")
        features, values = (snapshot.tensors[name].double().numpy().copy() for name in ("features", "gains"))
        self._take(features, values)


def _with_numbers(action: Action, rng: np.random.Generator) -> Action:
    """The action with a drawn mix or scale, as ``random`` draws them."""
    if action.operation == "hybridise":
        return action.model_copy(update={"mix": float(rng.random())})
    if action.operation == "grow":
        return action.model_copy(update={"scale": SPREAD ** float(rng.uniform(-1, 1))})
    return action
