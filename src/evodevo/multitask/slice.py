"""Rows of multitask systems (µNet, µ4Net) in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.recipes",
    {
        "multitask.characters": "evodevo.multitask.recipes.characters:CHARACTERS",
        "multitask.multipath": "evodevo.multitask.recipes.multipath:MULTIPATH",
    },
)
declare(
    "evodevo.exporters",
    {
        "source": "evodevo.multitask.source.exporter:PATH_SOURCE",
    },
)
declare(
    "evodevo.evaluators",
    {
        "path": "evodevo.multitask.evaluate:evaluate_path",
        "path_root": "evodevo.multitask.evaluate:evaluate_root",
        "path_joint": "evodevo.multitask.joint:evaluate_joint",
        "path_import": "evodevo.multitask.paths.network.imports:evaluate_import",
        "path_test": "evodevo.multitask.evaluate:measure_path",
        "path_transfer": "evodevo.multitask.transfer.probe:evaluate_transfer",
    },
)
