"""Do combined paths pay? Multipath agents beside singlepath agents with the same further budget, and every ablation.

Tasks with 20 samples of each class and converged main paths, in a system whose other paths have learned whole sets.

Source: docs/spec/munet.md#experiments. All variants of Table 2 continue copies of the same systems, one for each seed.
"""

from __future__ import annotations

from evodevo.multitask.paths.multipath_spec import ABLATIONS, MultipathStructure
from evodevo.multitask.recipes.characters import training_of
from evodevo.multitask.recipes.settings import (
    AgentPlan,
    EvaluationPlan,
    FlatPlan,
    MultipathRecipeSettings,
    MultipathVariant,
    StudyPlan,
    SystemPlan,
    VariantsPlan,
)
from evodevo.multitask.recipes.tasks import FEW_SUFFIX, few_tasks_of
from evodevo.multitask.run.few_labels import COMBINED, MAIN_DROPOUT
from evodevo.multitask.settings import CycleSettings
from evodevo.runs.recipe import Changes, Driver, Recipe, Size

DROPOUT = MultipathStructure(main_dropout=MAIN_DROPOUT)
"""Rows beyond the paper: connectors learn from answers without the main path too, more supports, a smaller w*."""
MAIN_WEIGHTS = (0.5, 0.65, 0.95)
"""The sweep of w*; 0.8 is the full agent's."""
FORCED = "cmaterdb_devanagari"
OFFLINE_FORCED = "digits_even"
SIDE = {"values": [24], "default": 24, "tuned": False}
"""Pixels of a side: all paths see the same."""
OFFLINE_SIDE = {"values": [16], "default": 16, "tuned": False}


def variants(forced: str) -> tuple[MultipathVariant, ...]:
    """The rows: the full agent, its two controls, the ablations, the forced support, the sweep of w*."""
    return (
        *(MultipathVariant(name=name, structure=structure) for name, structure in ABLATIONS.items()),
        MultipathVariant(name="forced_support", first=forced),
        *(
            MultipathVariant(name=f"main_{weight}", structure=MultipathStructure(main_weight=weight))
            for weight in MAIN_WEIGHTS
        ),
        MultipathVariant(name="main_dropout", structure=DROPOUT, options=COMBINED),
        MultipathVariant(
            name="main_dropout_no_decoupling",
            structure=DROPOUT.model_copy(update={"aggregation": "standard"}),
            options=COMBINED,
        ),
        MultipathVariant(name="singlepath", agent="singlepath"),
        MultipathVariant(name="head", agent="head"),
    )


def multipath(size: Size, driver: Driver, changes: Changes) -> MultipathRecipeSettings:
    """The settings.

    Args:
        size: ``quick``, two copies, shows that all works; ``full`` has ten. Both print their hours first.
        driver: ``extend``.
        changes: a folder of data for the tasks; without one they are questions about scikit-learn's digits.
    """
    changes.refuse_baselines()
    data = changes.data
    root, tasks = few_tasks_of(data)
    full = size == "full"
    side = OFFLINE_SIDE if data is None else SIDE
    return MultipathRecipeSettings(
        system=SystemPlan(
            tasks=tasks, root=root, agent=AgentPlan(kind="ConvTiny", hyperparameters={"ds_image_size": side})
        ),
        compared=VariantsPlan(
            targets=tuple(one.name for one in tasks if one.name.endswith(FEW_SUFFIX)),
            variants=variants(OFFLINE_FORCED if data is None else FORCED),
        ),
        study=StudyPlan(
            copies=10 if full else 2,
            cycles=1,
            extra=1,
            flat=FlatPlan(),
            cycle=CycleSettings(samples=8 if full else 4, generation_size=4),
        ),
        evaluation=EvaluationPlan(training=training_of(16_000 if full else 6_000, 4), root_validations=20),
    )


MULTIPATH = Recipe(
    "multitask.multipath",
    "multipath agents beside singlepath agents on copies of the same systems, with every ablation of the paper",
    ("extend",),
    multipath,
    reads_data=True,
)
