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
        "module_zoo.classifier": "evodevo.module_zoo.recipes.classifier:CLASSIFIER",
        "module_zoo.paper": "evodevo.module_zoo.recipes.paper:PAPER",
        "module_zoo.growth_proof": "evodevo.module_zoo.recipes.proof:GROWTH_PROOF",
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
        "best_single": "evodevo.module_zoo.procedures.best_single:train_best_single",
        "random_pools": "evodevo.module_zoo.procedures.random_pools:train_random_pools",
        "darts": "evodevo.module_zoo.procedures.darts:train_darts",
        "enas": "evodevo.module_zoo.procedures.enas:train_enas",
    },
)
declare(
    "evodevo.procedure_checks",
    {
        "best_single": "evodevo.module_zoo.procedures.search_settings:check_best_single",
        "random_pools": "evodevo.module_zoo.procedures.search_settings:check_random_pools",
        "darts": "evodevo.module_zoo.procedures.search_settings:check_darts",
        "enas": "evodevo.module_zoo.procedures.search_settings:check_enas",
    },
)
