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
        "best_single": "evodevo.module_zoo.procedures.rows:BEST_SINGLE",
        "random_pools": "evodevo.module_zoo.procedures.rows:RANDOM_POOLS",
        "darts": "evodevo.module_zoo.procedures.rows:DARTS",
        "enas": "evodevo.module_zoo.procedures.rows:ENAS",
        "race": "evodevo.module_zoo.procedures.rows:RACE",
    },
)
