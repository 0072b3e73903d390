"""Zoos that grow while they train, and what a strategist that learns must be compared with.

Source: docs/spec/architect_thyself.md#opponents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evodevo.errors import UsageError, unknown_name
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial, Variant
from evodevo.growth.growable import GROWABLES
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import STRATEGISTS
from evodevo.networks.spec import NetworkSpec
from evodevo.settings import changes_of_new_runs, merge, validate

GROW = "grow"
"""The procedure."""
FIXED = "fixed"
"""Name of the arm, and of the strategist, that never changes the zoo: the reference of differences."""
PLANNED = "enlarge"
"""Strategist that follows a plan: nothing is learned, and nothing decided."""
BESIDE = ("random", "heuristic")
"""Strategists beside one that learns: without them the gain of the learning cannot be measured."""
FROM_ALL = ("thompson",)
"""Strategists to which the edits of all strategists of a run are told: who chose an edit says nothing of its gain."""
EDITED_AROUND: Mapping[str, Any] = {
    "strategist": "heuristic",
    "allow": ["map_positions", "add_readout"],
    "around": {"tries": 1},
    "events": {"count": 2, "last": 0.3, "actions": 1},
    "forks": {"share": 0.15, "samples": 500, "orders": 0, "paired": True, "average": 0.5},
}
"""Options of an arm that is edited around its modules where a fork confirms it, and not otherwise.

One edit at each of two early events, so that much of the budget is left for what it adds. In short trainings that are
judged on many samples the judgement is most of the cost; without other orders of the batches the interval is by the
samples alone.
"""
RACE_THEN_GROW: Mapping[str, Any] = {
    "strategist": "heuristic",
    "allow": ["map_positions"],
    "around": {"tries": 1},
    "events": {"count": 1, "first": 0.1, "last": 0.1, "actions": 1},
    "forks": {**EDITED_AROUND["forks"], "share": 0.03, "most_share": 0.15, "required": True},
    "race": {"share": 0.15, "least": 30, "singles": 1.0, "identity": True, "judge": "loss", "otherwise": "mlp"},
}
"""Options of an arm that begins with what learns most in a short race, often no module at all, and then gets maps of
positions where a fork confirms them: one early, as these show their worth at once. Where 3 % of the budget have no room
for it, it takes what it needs, up to 15 %; a smaller budget has no maps, since they harm texts.
"""
NOTHING_HAPPENS: Mapping[str, Any] = {"strategist": FIXED, "events": {"count": 0}}
"""Options of the fixed arm: the same data split, no event, no probe; this strategist never races."""


def growing_arms(network: NetworkSpec, strategists: Sequence[str]) -> tuple[Variant, ...]:
    """The same network under each of these strategists, and fixed.

    Args:
        network: A network of a kind in ``GROWABLES``, before it grows.
        strategists: names; where one of them learns, ``BESIDE`` are there, too.

    Raises:
        UsageError: an unknown strategist, or none.
    """
    for name in strategists:
        if name not in STRATEGISTS:
            raise unknown_name("strategist", name, STRATEGISTS.names())
    if not strategists:
        raise UsageError(f"a zoo that grows needs a strategist: {', '.join(STRATEGISTS.names())}.")
    beside = BESIDE if any(learns(name) for name in strategists) else ()
    wanted = [name for name in dict.fromkeys((*strategists, *beside)) if name != FIXED]
    role = GROWABLES.get(network.kind).role
    return (
        *(
            Variant(name=arm_name(name), role=role, network=network, procedure=GROW, options={"strategist": name})
            for name in wanted
        ),
        Variant(name=FIXED, role=role, network=network, procedure=GROW, options=dict(NOTHING_HAPPENS)),
    )


def growth_of_new_runs(*, gated: bool = True) -> dict[str, Any]:
    """Options of the procedure ``grow`` in which new runs differ from stored ones without them, as plain data.

    Args:
        gated: Whether the network has a gate over its modules, beside which a newborn can be added.
    """
    options = changes_of_new_runs(GrowthSettings())
    return options if gated else {name: values for name, values in options.items() if name != "birth"}


def arm_name(strategist: str) -> str:
    """``grown by ppo``."""
    return f"grown by {strategist}"


def learns(strategist: str) -> bool:
    """Whether a strategist learns from edits, so that those of earlier runs are of use to it.

    Whether it has learned is another question (``strategists.gains.held_out``).
    """
    return strategist not in (FIXED, PLANNED, *BESIDE)


def strategist_of(evaluation: NetworkEvaluationSettings, arm: Trial | Variant) -> str | None:
    """Name of the strategist of a training; None where nothing grows."""
    if arm.procedure != GROW:
        return None
    options = merge(evaluation.options.get(GROW, {}), arm.options)
    return str(options.get("strategist", GrowthSettings.model_fields["strategist"].default))


def growth_of_arm(evaluation: NetworkEvaluationSettings, arm: Trial | Variant) -> GrowthSettings:
    """Settings of the growth of an arm that grows: those of all arms, and its own on top."""
    options = merge(evaluation.options.get(GROW, {}), arm.options)
    return validate(GrowthSettings, options, what=f"options of {arm.name}")


def growing(
    settings: ExperimentSettings, strategists: Sequence[str], options: Mapping[str, Any] | None = None
) -> ExperimentSettings:
    """The experiment whose first arm, a zoo, grows, beside the one that does not; its other arms stay as they are.

    The options of the growth are those of new runs if left out.

    All train to the end of their budget: a training that stops early because it has learned enough would end with fewer
    events than others.
    """
    zoo, *others = settings.experiment.arms
    select = settings.evaluation.select
    experiment = {
        "title": "a zoo that grows while it trains, beside the one that does not",
        "arms": (*growing_arms(zoo.network, strategists), *others),
        "reference": FIXED,
    }
    patient = None if select is None else select.model_copy(update={"patience": None})
    return settings.model_copy(
        update={
            "experiment": settings.experiment.model_copy(update=experiment),
            "evaluation": settings.evaluation.model_copy(
                update={
                    "select": patient,
                    "options": {GROW: growth_of_new_runs() if options is None else dict(options)},
                }
            ),
        }
    )


def with_edit_memory(settings: ExperimentSettings, memories: Mapping[str, str], joined: str) -> ExperimentSettings:
    """The experiment with edits of earlier runs for the arms that learn.

    Args:
        settings: settings of the experiment.
        memories: strategist -> digest of its own edits.
        joined: digest of all edits, for strategists that have none of their own, and for ``FROM_ALL``.
    """
    own = {name: digest for name, digest in memories.items() if name not in FROM_ALL}
    arms = tuple(
        plan.model_copy(update={"options": {**plan.options, "edit_memory": own.get(name, joined)}})
        if (name := strategist_of(settings.evaluation, plan)) is not None and learns(name)
        else plan
        for plan in settings.experiment.arms
    )
    return settings.model_copy(update={"experiment": settings.experiment.model_copy(update={"arms": arms})})


def with_policy_memory(settings: ExperimentSettings, policies: Mapping[str, str]) -> ExperimentSettings:
    """The experiment whose arms go on from policies of earlier runs.

    Args:
        settings: settings of the experiment.
        policies: strategist -> digest of its policy; arms of others stay as they are.
    """
    arms = tuple(
        plan.model_copy(update={"options": {**plan.options, "policy_memory": policies[name]}})
        if (name := strategist_of(settings.evaluation, plan)) in policies and name is not None
        else plan
        for plan in settings.experiment.arms
    )
    return settings.model_copy(update={"experiment": settings.experiment.model_copy(update={"arms": arms})})
