"""Programs of operations, asked on programs that were not trained on: routes that are learned, evolved, and given."""

from __future__ import annotations

from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.recipes.domains import BALANCE, BALANCE_WEIGHT, POOLED
from evodevo.h_model.recipes.variants import evaluation, h_model, learning_rates, stack
from evodevo.h_model.routes.settings import RouteSearchSettings
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RouterStructure, imposed
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.runs.recipe import Recipe, Size, by_size
from evodevo.tasks.reasoning.programs import ProgramsSettings

WIDTH = 32
BLOCK = MLPLayer(hidden=WIDTH)
TASK = ProgramsSettings()
ITERATIONS = TASK.length
SYMBOLS = TASK.operations + 1
"""Codes of a slot; the last one is that of no operation. There are as many hidden layers."""
SLOTS = tuple(TASK.values + slot * SYMBOLS for slot in range(TASK.length))
"""First entry of the code of each slot."""
GIVEN = RoutesStructure(input="program", slots=SLOTS, layers=tuple(range(SYMBOLS)))
"""The program is the route: the symbol in slot t names the layer of iteration t, and each symbol has its own."""


def programs(size: Size) -> ExperimentSettings:
    """Every arm runs three blocks of width 32 for an answer, besides its routing, and has as many steps, those of a
    search included; arms with given routes have those that a search leaves."""
    full = size == "full"
    steps = 15_000 if full else 5_000
    bare: dict[str, Any] = {"width": WIDTH, "input_blocks": 0, "output_blocks": 0}
    hidden = (BLOCK,) * SYMBOLS
    shared = HModelStructure(
        **bare, hidden=hidden, iterations=ITERATIONS, stream="carried", router=POOLED, regularisation=BALANCE
    )
    routed = shared.model_copy(update={"carried": CarriedStructure(iteration_router=True)})
    fixed = RouterStructure(head="constant", value=1.0)
    loop = HModelStructure(**bare, stream="paper", hidden=(BLOCK,), iterations=ITERATIONS, router=fixed)
    layers = (BLOCK,) * ITERATIONS
    search = RouteSearchSettings(
        input=GIVEN.input,
        slots=SLOTS,
        symbols=SYMBOLS,
        generations=10 if full else 5,
        steps=150 if full else 100,
    )
    left = {"budget": {"steps": steps - search.trainings * search.steps}}
    told = {"procedure": "routes", "options": {"routes": GIVEN.model_dump(mode="json")}}
    mixture = MixtureStructure(
        **bare,
        hidden=WIDTH,
        depth=ITERATIONS,
        experts=SYMBOLS,
        balance=BALANCE_WEIGHT,
        tied=True,
        iteration_embedding=True,
    )
    routers = mixture.model_copy(update={"pass_routers": True, "iteration_embedding": False})
    apart = mixture.model_copy(update={"tied": False, "iteration_embedding": False})
    arms = [
        _searched(routed, search, "evolved routes, then learned by the router"),
        _searched(routed, search.model_copy(update={"algorithm": "random"}), "routes by random search, then learned"),
        h_model(routed, "H-Model, carried stream, top-1, a router for each iteration"),
        h_model(shared, "H-Model, carried stream, top-1"),
        h_model(loop, "constant c = 1, one layer three times").model_copy(update={"role": "control"}),
        stack(StackStructure(**bare, layers=layers), "stack of three"),
        _opponent(mixture, "mixture of experts in a loop, top-1"),
        _opponent(routers, "mixture of experts in a loop, top-1, a router for each pass"),
        _opponent(apart, "Switch, three mixtures"),
        _saw_the_routes(imposed(shared, GIVEN), "given routes (the ceiling)", training=left),
        _saw_the_routes(routed, "given routes, then learned by the router", training=left, **told),
    ]
    if full:
        arms += [
            _saw_the_routes(shared, "given routes, then learned by one router for all", training=left, **told),
            h_model(shared.model_copy(update={"carried": CarriedStructure(m=2)}), "H-Model, carried stream, top-2"),
            stack(StackStructure(**bare, layers=layers * ITERATIONS), "stack of nine"),
        ]
    return ExperimentSettings(
        experiment=Comparison(
            title="programs of operations, asked on programs that were not trained on",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 1e-2),
            seeds=3 if full else 1,
            reference=arms[0].name,
            caveats=(
                "Arms with given routes saw what the others have to find, and train for as long as a search leaves.",
                "A search is told where codes of operations begin in the input, neither their order nor their meaning.",
                "All steps of a search count in the budget, and its FLOPs in the column equal FLOPs.",
            ),
        ),
        evaluation=evaluation(size, "programs", steps=steps, batch_size=128),
    )


def _opponent(structure: MixtureStructure, name: str) -> Variant:
    return Variant(name=name, role="opponent", network=MixtureNetwork(structure=structure))


def _searched(structure: HModelStructure, search: RouteSearchSettings, name: str) -> Variant:
    options = {"search": search.model_dump(mode="json")}
    return h_model(structure, name, procedure="routes", options=options)


def _saw_the_routes(structure: HModelStructure, name: str, **more: Any) -> Variant:
    return h_model(structure, name, **more).model_copy(update={"role": "other"})


PROGRAMS = Recipe(
    "h_model.programs",
    "programs of operations, tested on unseen ones: routes that are learned, evolved, and given",
    ("train",),
    by_size(programs),
)
