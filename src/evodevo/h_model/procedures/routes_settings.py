"""Options of the procedure ``routes``, without torch: a given table or a search for one, and how a router learns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.experiments.settings import NetworkEvaluationSettings, procedure_options, training_settings
from evodevo.experiments.trials import Trial
from evodevo.h_model.network import structure_of_h_model
from evodevo.h_model.routes.genome import RoutesGenome, print_genome
from evodevo.h_model.routes.settings import RouteSearchSettings
from evodevo.h_model.routes.space import space_of
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.spec import HModelStructure, imposed
from evodevo.networks.spec import NetworkSpec
from evodevo.settings import Settings, validate
from evodevo.tasks.base import SampleTask
from evodevo.training.settings import Budget, TrainingSettings


class RoutesOptions(Settings):
    """Routes that a router learns to name (docs/spec/h_model.md#evolution-of-routes).

    Attributes:
        routes: a table that is given.
        search: instead, a search for one, within the budget.
        guided: share of the rest of the budget in which the network follows the table and its router learns to name the
            layers; afterwards the router decides. At 1 it never does in training.
        imitation: weight of the router's cross-entropy while the table is followed.
    """

    routes: RoutesStructure | None = None
    search: RouteSearchSettings | None = None
    guided: float = Field(default=0.7, gt=0, le=1)
    imitation: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.routes is None) == (self.search is None):
            raise ValueError("give either routes, or a search for them")
        return self

    def sample(self, structure: HModelStructure) -> RoutesStructure:
        """The given table, or one like those that a search tries: the same input, as many symbols, the last slot."""
        if self.routes is not None:
            return self.routes
        assert self.search is not None, "one of the two"
        slots = (max(self.search.slots),) * structure.iterations
        return RoutesStructure(input=self.search.input, slots=slots, layers=(0,) * self.search.symbols)


def options_of(values: Mapping[str, Any]) -> RoutesOptions:
    """The options.

    Raises:
        UsageError: a wrong one.
    """
    return validate(RoutesOptions, dict(values), what="options of the procedure 'routes'")


def check_routes(settings: NetworkEvaluationSettings, arm: Trial) -> None:
    """
    Raises:
        UsageError: wrong options, no carried stream with a router for one layer at a time, routes that do not fit it,
            or a budget that is not in steps or too small for the search.
    """
    options = options_of(procedure_options(settings, arm))
    structure = routed_structure(arm.network)
    if options.search is not None:
        space_of(options.search, structure)
    imposed(structure, options.sample(structure))
    rest_of(training_settings(settings, arm), options.search)


def check_task(settings: NetworkEvaluationSettings, arm: Trial, task: SampleTask) -> None:
    """
    Raises:
        UsageError: codes that do not lie in an input of the task.
    """
    options = options_of(procedure_options(settings, arm))
    options.sample(routed_structure(arm.network)).check(task.inputs)


def routed_structure(network: NetworkSpec) -> HModelStructure:
    """The structure of a carried stream with a router.

    Raises:
        UsageError: another network.
    """
    structure = structure_of_h_model(network)
    if structure is None or structure.stream != "carried" or structure.carried.routes is not None:
        raise UsageError("the procedure 'routes' teaches the router of an H-Model with stream = carried; it needs one.")
    if structure.carried.most != 1:
        raise UsageError(
            f"given routes lead through one layer at a time, and carried lets {structure.carried.most} run; take m = 1."
        )
    return structure


def routes_words(facts: Mapping[str, Any]) -> list[str]:
    """The facts of such a training in sentences; none where it had not ended."""
    routes, search, named = facts.get("routes"), facts.get("search"), facts.get("named")
    if routes is None:
        return []
    table = RoutesGenome(tuple(routes["slots"]), tuple(routes["layers"]))
    words = [f"Routes (slot of each iteration | layer of each symbol): {print_genome(table)}."]
    if search is not None:
        best = search["tables"][search["best"]]["loss"]
        words.append(
            f"Found among {search['tried']} tables in {search['steps']:,} steps of training; loss {best:.3f} nats "
            "after its own."
        )
    if named is not None:
        words.append(f"The router, left alone, names the layer of the table in {named:.1%} of its decisions.")
    return words


def rest_of(training: TrainingSettings, search: RouteSearchSettings | None) -> TrainingSettings:
    """The training that a search leaves room for.

    Raises:
        UsageError: a budget that is not in steps, or that the search uses up.
    """
    steps = training.budget.steps
    if steps is None or training.budget != Budget(steps=steps):
        raise UsageError("the procedure 'routes' divides its budget between search and training; give it in steps.")
    used = 0 if search is None else search.trainings * search.steps
    if steps <= used:
        assert search is not None, "without a search nothing is used"
        raise UsageError(
            f"{search.trainings} tables of {search.steps} steps use up the budget of {steps} steps; give more than "
            f"{used}, or try fewer."
        )
    return training.model_copy(update={"budget": Budget(steps=steps - used)})
