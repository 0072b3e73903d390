"""The options of the procedure ``grow``, and what is refused before anything is trained; no torch here."""

from __future__ import annotations

import math

from evodevo.errors import UsageError
from evodevo.evaluation.network_settings import NetworkEvaluationSettings, procedure_options, training_settings
from evodevo.evaluation.search_settings import zoo_of
from evodevo.settings import validate
from evodevo.spaces.arms import Arm
from evodevo.spaces.zoo_growth import GrowthSettings
from evodevo.spaces.zoo_module_cost import genotype_parameters
from evodevo.spaces.zoo_structure import ZooStructure
from evodevo.training.settings import TrainingSettings


def check_grow(settings: NetworkEvaluationSettings, arm: Arm) -> None:
    """See ``procedures.CHECKS``."""
    growth = validate(GrowthSettings, procedure_options(settings, arm), what=f"options of {arm.procedure}")
    check_zoo(zoo_of(arm), growth)
    check_events(training_settings(settings, arm), growth)


def check_zoo(structure: ZooStructure, growth: GrowthSettings) -> None:
    """Refuse a zoo that is too large to begin with. What lies around modules is counted when the run begins.

    Raises:
        UsageError: more modules than there may be, or modules that alone exceed the cap of parameters.
    """
    count, most = len(structure.live), growth.birth.most
    if count > most:
        raise UsageError(f"the zoo begins with {count} modules, and birth.most allows {most}.")
    cap = growth.caps.parameters
    own = sum(genotype_parameters(module.genotype) for module in structure.live)
    if cap is not None and own > cap:
        raise UsageError(
            f"the modules alone have {own:,} parameters, over the cap of {cap:,}. Raise caps.parameters, or begin with "
            "a smaller zoo."
        )


def check_events(training: TrainingSettings, growth: GrowthSettings) -> None:
    """Refuse a budget in which some event has no step before it, or a warm-up no step of its own.

    Raises:
        UsageError: with the least budget that does.
    """
    events, steps = growth.events, total_steps(training)
    if steps is None or not events.count:
        return
    shares = [events.first, events.warm]
    if events.count > 1:
        shares.append((events.last - events.first) / (events.count - 1))
    least = max(math.ceil(1 / share) if share else 0 for share in shares)
    if 0.0 in shares[2:]:
        raise UsageError(f"{events.count} events come all at {events.first:g}; set events.last above events.first.")
    if steps < least:
        raise UsageError(
            f"{steps} steps are too few for {events.count} events with warm-ups of {events.warm:g} of them; give at "
            f"least {least}, or fewer events."
        )


def total_steps(training: TrainingSettings) -> int | None:
    """Steps that the budget allows; None where only the clock counts."""
    steps, tokens = training.budget.steps, training.budget.tokens
    amounts = [one for one in (steps, None if tokens is None else tokens // training.batch_size) if one is not None]
    return min(amounts, default=None)
