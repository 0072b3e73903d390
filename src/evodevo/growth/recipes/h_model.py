"""An H-Model whose hidden layers are added and removed while it trains, beside the same one fixed.

Source: docs/spec/h_model.md#adding-and-removing-layers.

On k-hop pointers: the token at one position decides which other one counts, so that a model whose layers read each
position alone, or the mean of all, cannot answer. It begins with two such layers, and the strategist has to find the
missing kind; a second start has a transformer, where growth can only refine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth.recipes.growing import FIXED, growing_arms, growth_of_new_runs
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.variants import AT_THE_END, evaluation, learning_rates, opponents
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.named import named_zoo
from evodevo.runs.recipe import STRATEGIST, Baselines, Changes, Driver, Recipe, Size
from evodevo.settings import merge

WIDTH = 32
STARTS: Mapping[str, tuple[str, ...]] = {
    "no attention": ("mlp", "squeeze_excite"),
    "with attention": ("transformer", "mlp"),
}
"""Cell -> families that it begins with."""
GROWTH: Mapping[str, Any] = {
    # It begins with two layers, and pruning must not leave it with fewer.
    "prune": {"least": 2},
    "birth": {"most": 6},
}


def start(families: Sequence[str]) -> HModelStructure:
    """An H-Model of one module of each family."""
    hidden = tuple(GenotypeLayer(module=module) for module in named_zoo(families, WIDTH))
    # Without blocks in inputs, since these would read other positions.
    return HModelStructure(
        stream="paper", width=WIDTH, hidden=hidden, iterations=4, input_blocks=0, output_blocks=0, router=AT_THE_END
    )


def arms(strategists: Sequence[str], starts: Sequence[str]) -> tuple[Variant, ...]:
    """Each start under each strategist, and fixed."""
    return tuple(
        plan.model_copy(update={"cell": {"start": name}})
        for name in starts
        for plan in growing_arms(HModelNetwork(structure=start(STARTS[name])), strategists)
    )


def growing(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Quick: the start without attention; full: both, three seeds.

    Args:
        size: quick or full.
        driver: ``train`` trains the arms of the recipe, under its own strategist.
        changes: in ``grow``, baselines ``quick`` and ``all`` add the opponents of every H-Model, none if left out; for
            one that learns those that learn nothing are added.
    """
    if driver != "grow":
        changes.refuse_baselines()
    strategists = (STRATEGIST,) if changes.strategists is None else changes.strategists
    full = size == "full"
    starts = tuple(STARTS) if full else tuple(STARTS)[:1]
    made = evaluation(size, "pointer", steps=4_000 if full else 1_000)
    return ExperimentSettings(
        experiment=Comparison(
            title="an H-Model that grows while it trains, beside the one that does not, on k-hop pointers",
            arms=(*arms(strategists, starts), *(_opponents(starts, changes.baselines) if changes.baselines else ())),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
            reference=FIXED,
            caveats=("Equal steps, not equal FLOPs: an arm that grows computes more, as the table shows.",),
        ),
        evaluation=made.model_copy(update={"options": {"grow": merge(growth_of_new_runs(gated=False), dict(GROWTH))}}),
    )


def _opponents(starts: Sequence[str], baselines: Baselines) -> list[Variant]:
    which: Mapping[Baselines, tuple[Size, ...]] = {"none": (), "quick": ("quick",), "all": ("full",)}
    return [
        plan
        for size in which[baselines]
        for name in starts
        for plan in opponents(start(STARTS[name]), size, cell={"start": name})
    ]


GROWING = Recipe(
    "h_model.growing",
    "an H-Model whose hidden layers come and go while it trains, beside the same one fixed",
    ("train", "grow"),
    growing,
)
