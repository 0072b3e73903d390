"""Rows of zoos of modules (Architect Thyself) in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.slices",
    {
        "module_zoo": "evodevo.module_zoo.runs:MODULE_ZOO",
    },
)
declare(
    "evodevo.recipes",
    {
        "module_zoo.small": "evodevo.module_zoo.recipes.search:SMALL",
    },
)
declare(
    "evodevo.networks",
    {
        "module_zoo": "evodevo.module_zoo.model:ModuleZoo",
        "module_ensemble": "evodevo.module_zoo.baselines.ensemble:ModuleEnsemble",
        "baseline": "evodevo.module_zoo.baselines.build:build_baseline",
    },
)
declare(
    "evodevo.network_costs",
    {
        "module_zoo": "evodevo.module_zoo.cost:zoo_cost",
        "module_ensemble": "evodevo.module_zoo.cost:ensemble_cost",
        "baseline": "evodevo.module_zoo.baselines.cost:baseline_cost",
    },
)
declare(
    "evodevo.network_words",
    {
        "module_zoo": "evodevo.module_zoo.draw:zoo_words",
        "module_ensemble": "evodevo.module_zoo.draw:ensemble_words",
        "baseline": "evodevo.module_zoo.draw:baseline_words",
    },
)
declare(
    "evodevo.layers",
    {
        "genotype": "evodevo.module_zoo.modules.genotype_layer:GenotypeLayer",
    },
)
declare(
    "evodevo.procedures",
    {
        "best_single": "evodevo.module_zoo.procedures.rows:BEST_SINGLE",
        "random_pools": "evodevo.module_zoo.procedures.rows:RANDOM_POOLS",
        "darts": "evodevo.module_zoo.procedures.rows:DARTS",
        "enas": "evodevo.module_zoo.procedures.rows:ENAS",
    },
)
