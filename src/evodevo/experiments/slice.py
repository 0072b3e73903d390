"""Rows of experiments in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.slices",
    {
        "experiment": "evodevo.experiments.runs:EXPERIMENT",
    },
)
declare(
    "evodevo.evaluators",
    {
        "network": "evodevo.experiments.evaluate:evaluate_network",
        "network_pace": "evodevo.experiments.evaluate:measure_pace",
        "network_features": "evodevo.experiments.evaluate:prepare_features",
    },
)
