"""Rows of growth during training (Architect Thyself) in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.procedures",
    {
        "grow": "evodevo.growth.procedure:train_grow",
    },
)
declare(
    "evodevo.procedure_checks",
    {
        "grow": "evodevo.growth.procedure_settings:check_grow",
    },
)
declare(
    "evodevo.procedure_task_checks",
    {
        "grow": "evodevo.growth.procedure_settings:check_caps",
    },
)
