"""Checks of the procedure ``grow`` and its options before anything is trained; no torch here."""

from __future__ import annotations

import math

from evodevo.errors import UsageError, unknown_name
from evodevo.experiments.settings import NetworkEvaluationSettings, procedure_options, training_settings
from evodevo.experiments.trials import Trial
from evodevo.growth.caps.smaller import check_falls
from evodevo.growth.forks.unit import NO_UNIT, unit_of
from evodevo.growth.growable import GROWABLES, Growable, TaskSizes
from evodevo.growth.resources import check_start
from evodevo.growth.shifts.stream import data_before
from evodevo.growth.spec import REPLACE, GrowthSettings
from evodevo.growth.strategists.base import STRATEGISTS
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.settings import validate
from evodevo.tasks.base import SampleTask
from evodevo.tasks.held.back import with_architecture_split
from evodevo.training.settings import TrainingSettings

FEWEST_TRAININGS = 2
"""Trainings in the smallest race: two networks, once each."""


def check_grow(settings: NetworkEvaluationSettings, arm: Trial) -> None:
    """Refuse options, modules and budgets with which nothing can grow; raises UsageError."""
    growth = validate(GrowthSettings, procedure_options(settings, arm), what=f"options of {arm.procedure}")
    check_zoo(pool_to_grow(arm), growth)
    check_events(training_settings(settings, arm), growth)
    check_shift(settings, training_settings(settings, arm), growth)


def check_caps(settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask) -> None:
    """Check the whole network against its caps, before it grows; seconds are measured when the run begins.

    Raises:
        UsageError: It is over a cap already, or too large for what a cap falls to; or its forks do not fit its budget,
            or its shift the task.
    """
    growth = validate(GrowthSettings, procedure_options(settings, arm), what=f"options of {arm.procedure}")
    check_forks(training_settings(settings, arm), growth)
    data_before(with_architecture_split(task), growth.shift)
    caps = growth.caps.unmeasured()
    if caps.after(0).limits or caps.lowest.limits:
        batch = training_settings(settings, arm).batch_size
        zoo, sizes = pool_to_grow(arm), TaskSizes(task.inputs, task.outputs, batch=batch)
        check_start(zoo, sizes, caps)
        check_falls(zoo, sizes, caps)


def pool_to_grow(arm: Trial) -> Growable:
    """The network of an arm as modules that can be born and removed.

    Raises:
        UsageError: A kind of network that cannot grow, or a structure that cannot.
    """
    kind = arm.network.kind
    if kind not in GROWABLES:
        kinds = " and ".join(GROWABLES.get(name).plural for name in GROWABLES)
        raise UsageError(f"the procedure {arm.procedure!r} grows {kinds}; {arm.name} is a {kind}.")
    return GROWABLES.get(kind).of(arm.network.structure)


def check_zoo(structure: Growable, growth: GrowthSettings) -> None:
    """Refuse a zoo that is too large to begin with. What lies around modules is counted when the run begins.

    Raises:
        UsageError: More modules than allowed, or modules that alone exceed the cap of parameters; a setting that
            this kind of network does not have; an unknown strategist.
    """
    if growth.strategist not in STRATEGISTS:
        raise unknown_name("strategist", growth.strategist, STRATEGISTS)
    structure.check(growth)
    if growth.opened and not structure.in_place:
        raise UsageError(
            f"modules of {structure.plural} are not edited in place; leave {', '.join(growth.opened)} out of allow."
        )
    if growth.opened_around and not structure.in_place:
        names = ", ".join(growth.opened_around)
        raise UsageError(f"{structure.plural} are not edited around their modules; leave {names} out of allow.")
    if REPLACE in growth.allow and not structure.in_place:
        raise UsageError(f"modules of {structure.plural} are not replaced at once; leave {REPLACE} out of allow.")
    if growth.race.share and not structure.races:
        raise UsageError(f"modules of {structure.plural} do not race; set race.share to 0.")
    if growth.shift.race.share and not structure.races:
        raise UsageError(f"modules of {structure.plural} do not race at a shift; set shift.race.share to 0.")
    if growth.caps.falls:
        _check_schedule(structure, growth)
    count, most = len(structure.live), growth.birth.most
    if not count:
        raise UsageError("nothing can grow here: the network has no live module.")
    if count > most:
        raise UsageError(f"the zoo begins with {count} modules, and birth.most allows {most}.")
    cap = growth.caps.parameters
    own = sum(genotype_parameters(module.genotype) for module in structure.live)
    if cap is not None and own > cap:
        raise UsageError(
            f"the modules alone have {own:,} parameters, over the cap of {cap:,}. Raise caps.parameters, or begin with "
            "a smaller zoo."
        )


def _check_schedule(structure: Growable, growth: GrowthSettings) -> None:
    """Refuse caps that fall beside what does not go with them; raises UsageError."""
    if not structure.races:
        raise UsageError(f"caps of {structure.plural} do not fall during a training; leave caps.schedule out.")
    if "prune" not in growth.allow:
        raise UsageError("where a cap falls, modules go; name prune in allow, or leave caps.schedule out.")
    if growth.race.share:
        raise UsageError(
            "the race at the start leaves a module or two, among which a cap that falls later can hardly choose. "
            "Set race.share to 0, or leave caps.schedule out."
        )


def check_shift(settings: NetworkEvaluationSettings, training: TrainingSettings, growth: GrowthSettings) -> None:
    """Refuse a shift that a training would not reach, or that comes before anything was learned.

    Raises:
        UsageError: The race at the start may last longer, the training may stop before, or there are too few steps.
    """
    shift, select, steps = growth.shift, settings.select, total_steps(training)
    if shift.kind is None:
        return
    if growth.race.share >= shift.at:
        raise UsageError(
            f"the race at the start may take {growth.race.share:g} of the budget, and the data shift at {shift.at:g}; "
            "set race.share below shift.at."
        )
    if select is not None and select.patience is not None and select.min_share < shift.at:
        raise UsageError(
            f"a training that may stop at {select.min_share:g} of its budget does not see the data shift at "
            f"{shift.at:g}; set select.min_share to that at least, or select.patience to nothing."
        )
    if steps is not None and min(math.floor(shift.at * steps), steps - math.ceil(shift.at * steps)) < 1:
        raise UsageError(f"{steps} steps leave none before or after the shift at {shift.at:g}; give more.")


def check_events(training: TrainingSettings, growth: GrowthSettings) -> None:
    """Refuse a budget in which some event has no step before it, or a warm-up no step of its own.

    Raises:
        UsageError: The budget is too small; the message names the least one that is enough.
    """
    events, steps = growth.events, total_steps(training)
    if steps is None or not events.count:
        return
    race = growth.race
    raced = steps * race.share * race.singles >= FEWEST_TRAININGS * race.least
    steps = math.floor(steps * (1 - race.share)) if raced else steps
    shares = [events.first, events.warm]
    if events.count > 1:
        shares.append((events.last - events.first) / (events.count - 1))
    least = max(math.ceil(1 / share) if share else 0 for share in shares)
    if 0.0 in shares[2:]:
        raise UsageError(f"{events.count} events come all at {events.first:g}; set events.last above events.first.")
    if steps < least:
        planned = f"{events.count} event{'' if events.count == 1 else 's'}"
        raise UsageError(
            f"{steps} steps{' after the race' if raced else ''} are too few for {planned} with warm-ups of "
            f"{events.warm:g} of them; give at least {least}, or fewer events."
        )


def check_forks(training: TrainingSettings, growth: GrowthSettings) -> None:
    """Refuse forks under a budget in which they cannot be charged; raises UsageError.

    Apart from ``check_events``, which also judges budgets in FLOPs by a number of steps that is about the same.
    """
    if growth.forks.share and growth.events.count and unit_of(training.budget) is None:
        raise UsageError(NO_UNIT.format("set forks.share to 0"))


def total_steps(training: TrainingSettings) -> int | None:
    """Steps that the budget allows; None where it is in seconds or FLOPs only."""
    steps, tokens = training.budget.steps, training.budget.tokens
    limits = (steps, None if tokens is None else tokens // training.batch_size)
    return min((limit for limit in limits if limit is not None), default=None)
