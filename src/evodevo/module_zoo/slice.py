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
        "module_zoo": "evodevo.module_zoo.network:ModuleZooNetwork",
        "module_ensemble": "evodevo.module_zoo.baselines.ensemble:ModuleEnsembleNetwork",
        "baseline": "evodevo.module_zoo.baselines.network:BaselineNetwork",
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
