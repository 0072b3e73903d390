"""Do combined paths pay? Multipath agents beside singlepath agents with the same further budget, and every ablation.

Source: docs/spec/munet.md#experiments. All variants of Table 2 continue copies of the same systems, one for each seed.
"""

from __future__ import annotations

from evodevo.multitask.paths.multipath_spec import ABLATIONS, MultipathStructure
from evodevo.multitask.recipes.characters import agents_of, training_of
from evodevo.multitask.recipes.settings import (
    EvaluationPlan,
    MultipathRecipeSettings,
    MultipathVariant,
    StudyPlan,
    SystemPlan,
    VariantsPlan,
)
from evodevo.multitask.recipes.tasks import tasks_of
from evodevo.multitask.settings import CycleSettings
from evodevo.runs.recipe import Changes, Driver, Recipe, Size

MAIN_WEIGHTS = (0.5, 0.65, 0.95)
"""The sweep of w*; 0.8 is the full agent's."""
TARGETS = ("cifar10_jpg", "omniglot_small1")
FORCED = "notmnist10k"
OFFLINE_TARGETS = ("digits", "digits_rotated")
OFFLINE_FORCED = "digits_even"


def variants(forced: str) -> tuple[MultipathVariant, ...]:
    """The rows: the full agent, its two controls, the ablations, the forced support, the sweep of w*."""
    return (
        *(MultipathVariant(name=name, structure=structure) for name, structure in ABLATIONS.items()),
        MultipathVariant(name="forced_support", first=forced),
        *(
            MultipathVariant(name=f"main_{weight}", structure=MultipathStructure(main_weight=weight))
            for weight in MAIN_WEIGHTS
        ),
        MultipathVariant(name="singlepath", agent="singlepath"),
        MultipathVariant(name="head", agent="head"),
    )


def multipath(size: Size, driver: Driver, changes: Changes) -> MultipathRecipeSettings:
    """The settings.

    Args:
        size: ``quick`` (minutes on 2 cores) or ``full``, which prints its hours first.
        driver: ``extend``.
        changes: a folder of data for the tasks; without one they are questions about scikit-learn's digits.
    """
    changes.refuse_baselines()
    data = changes.data
    root, tasks = tasks_of(data)
    full = size == "full"
    return MultipathRecipeSettings(
        system=SystemPlan(tasks=tasks, root=root, agent=agents_of(size, data)),
        compared=VariantsPlan(
            targets=OFFLINE_TARGETS if data is None else TARGETS,
            variants=variants(OFFLINE_FORCED if data is None else FORCED),
        ),
        study=StudyPlan(
            copies=5,
            cycles=2 if full else 1,
            extra=2 if full else 1,
            cycle=CycleSettings(samples=16 if full else 4, generation_size=4),
        ),
        evaluation=EvaluationPlan(
            training=training_of(8000, 4) if full else training_of(1500, 2),
            root_validations=20 if full else 10,
        ),
    )


MULTIPATH = Recipe(
    "multitask.multipath",
    "multipath agents beside singlepath agents on copies of the same systems, with every ablation of the paper",
    ("extend",),
    multipath,
    reads_data=True,
)
