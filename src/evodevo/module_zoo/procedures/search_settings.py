"""Options of the procedures that search a zoo and then train what they found, and their checks; no torch here."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.experiments.settings import NetworkEvaluationSettings, procedure_options
from evodevo.experiments.trials import Trial
from evodevo.module_zoo.network import structure_of_zoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import Settings, validate
from evodevo.training.settings import TrainingSettings

Otherwise = Literal["all", "mlp"]


class SearchOptions(Settings):
    """The options of all searches.

    Attributes:
        share: share of the budget that the search uses up, 0 to 1; its result is trained from scratch with the rest.
        samples: number of samples of the architecture split by which a candidate is judged.
    """

    share: float = Field(default=0.5, gt=0, lt=1)
    samples: int = Field(default=512, ge=1)


class BestSingleOptions(SearchOptions):
    """The options of ``best_single``.

    Attributes:
        each: the modules that are tried alone: the first module of each ``archetype``, or every ``module``.
    """

    share: float = Field(default=0.3, gt=0, lt=1)
    each: Literal["archetype", "module"] = "archetype"


class RandomPoolsOptions(SearchOptions):
    """The options of ``random_pools``.

    Attributes:
        candidates: number of pools that are drawn.
        modules: number of modules in each; as many as the arm's zoo has if left out.
    """

    candidates: int = Field(default=8, ge=2, le=1024)
    modules: int | None = Field(default=None, ge=1, le=256)


class DartsOptions(SearchOptions):
    """The options of ``darts``.

    Attributes:
        top_k: number of modules that are left.
        factor: factor of the learning rate for the architecture's weights, which have fewer steps to converge.
    """

    top_k: int = Field(default=3, ge=1, le=255)
    factor: float = Field(default=10.0, gt=0, le=1000)


class EnasOptions(SearchOptions):
    """The options of ``enas``.

    Attributes:
        size: number of modules of a sub-pool.
        finalists: number of sub-pools that are drawn in the end and judged with the shared weights.
        rate: step of the policy along an advantage of one standard deviation.
        memory: decay of the moving averages of rewards and of their squares, 0 to 1.
    """

    size: int = Field(default=3, ge=1, le=255)
    finalists: int = Field(default=10, ge=1, le=1024)
    rate: float = Field(default=0.1, gt=0, le=10)
    memory: float = Field(default=0.9, ge=0, lt=1)


class RaceOptions(SearchOptions):
    """The options of ``race``.

    Attributes:
        share: largest share of the budget for the race, 0 to 1; the winner goes on with the rest.
        least: fewest steps of a network in a rung; where the budget has no room for them, fewer networks take part.
        singles: share of the race for the modules alone, above 0 and at most 1; pairs have what that leaves, and with 1
            there are none.
        identity: whether a network without a module, whose encoders are read as they are, races with the modules alone.
        judge: criterion by which networks go on. ``loss``: the loss so far. ``trend``: the loss to which its fall leads
            in eight times as many steps (``racing.plan.expected_loss``); each network is judged once more in its first
            rung then.
        begin: share of the budget after which all of it begins, 0 to 1: only the rest is used up, as by a training from
            scratch that begins late.
        flops: largest FLOPs of one sample, executed in evaluation, of a network that races; None for no limit.
        otherwise: network that is trained where the budget has no room for two: that of ``all`` modules, or of the
            first ``mlp`` alone (of all where there is none).
    """

    share: float = Field(default=0.15, gt=0, lt=1)
    least: int = Field(default=30, ge=1, le=100_000)
    singles: float = Field(default=0.5, gt=0, le=1)
    identity: bool = False
    judge: Literal["loss", "trend"] = "loss"
    begin: float = Field(default=0.0, ge=0, lt=1)
    flops: float | None = Field(default=None, gt=0)
    otherwise: Otherwise = Field(default="all", exclude_if=lambda value: value == "all")


O = TypeVar("O", bound=SearchOptions)  # noqa: E741


def zoo_of(arm: Trial) -> ZooStructure:
    """The structure that is searched.

    Raises:
        UsageError: the arm's network is no zoo, or has no module.
    """
    structure = structure_of_zoo(arm.network)
    if structure is None:
        raise UsageError(f"the procedure {arm.procedure!r} searches a zoo; {arm.name} is a {arm.network.kind}.")
    if not structure.live:
        raise UsageError(f"the procedure {arm.procedure!r} has nothing to search: {arm.name} has no live module.")
    return structure


def without_race(structure: ZooStructure, otherwise: Otherwise) -> ZooStructure:
    """The zoo that is trained where modules cannot race."""
    plain = next((module for module in structure.live if module.genotype.archetype == "mlp"), None)
    if otherwise == "all" or plain is None:
        return structure
    return structure.model_copy(update={"modules": (plain,), "disabled": ()})


def candidates_of(structure: ZooStructure, each: Literal["archetype", "module"]) -> list[str]:
    """Ids of the modules that ``best_single`` tries."""
    candidates: dict[str, str] = {}
    for module in structure.live:
        candidates.setdefault(module.genotype.archetype if each == "archetype" else module.id, module.id)
    return list(candidates.values())


def check_budget(training: TrainingSettings, share: float, trainings: int) -> None:
    """Refuse a budget of which not even one step is left for each training of a search, and one for what it finds.

    Raises:
        UsageError: with the least budget that does.
    """
    steps, tokens = training.budget.steps, training.budget.tokens
    amounts = [amount for amount in (steps, None if tokens is None else tokens // training.batch_size) if amount]
    least = max(-(-trainings // share), 1 / (1 - share))
    if amounts and min(amounts) < least:
        raise UsageError(
            f"{min(amounts)} steps are too few to try {trainings} networks with {share:g} of them and to train the "
            f"best one with the rest; give at least {least:.0f}."
        )


def training_after(training: TrainingSettings, begin: float) -> TrainingSettings:
    """The training with what is left of its budget after this share of it."""
    if not begin:
        return training
    budget, left = training.budget, 1 - begin
    amounts = {
        "steps": None if budget.steps is None else max(1, int(budget.steps * left)),
        "tokens": None if budget.tokens is None else max(training.batch_size, int(budget.tokens * left)),
        "seconds": None if budget.seconds is None else budget.seconds * left,
        "flops": None if budget.flops is None else budget.flops * left,
    }
    return training.model_copy(update={"budget": budget.model_copy(update=amounts)})


def check_race(training: TrainingSettings, structure: ZooStructure) -> None:
    """Refuse a race of one module.

    Raises:
        UsageError: with what to change.
    """
    reason = why_no_race(structure)
    if reason is not None:
        raise UsageError(reason)


def why_no_race(structure: ZooStructure) -> str | None:
    """Why modules of this zoo cannot race, and what to change; None where they can."""
    return "a race needs a zoo of at least two live modules." if len(structure.live) < 2 else None


def options_of(kind: type[O], settings: NetworkEvaluationSettings, arm: Trial) -> O:
    return validate(kind, procedure_options(settings, arm), what=f"options of {arm.procedure}")


def check_choice(name: str, value: int, structure: ZooStructure) -> None:
    if value >= len(structure.live):
        raise UsageError(
            f"{name} is {value}, and the zoo has {len(structure.live)} live modules: nothing is left to choose."
        )
