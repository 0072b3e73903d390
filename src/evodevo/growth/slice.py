"""Rows of growth during training (Architect Thyself, and growing language models) in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.recipes",
    {
        "backbone.growing": "evodevo.growth.backbone.recipes:GROWING",
        "backbone.growth_proof": "evodevo.growth.backbone.recipes:GROWTH_PROOF",
        "backbone.race_then_grow": "evodevo.growth.backbone.recipes:RACE_THEN_GROW",
        "h_model.growing": "evodevo.growth.recipes.h_model:GROWING",
        "module_zoo.classifier": "evodevo.growth.recipes.classifier:CLASSIFIER",
        "module_zoo.paper": "evodevo.growth.recipes.paper:PAPER",
        "module_zoo.race_then_grow": "evodevo.growth.recipes.race_then_grow:RACE_THEN_GROW_RECIPE",
        "module_zoo.falling_cap": "evodevo.growth.recipes.falling:FALLING_CAP",
        "module_zoo.shift": "evodevo.growth.recipes.shift:SHIFT",
        "module_zoo.growth_proof": "evodevo.growth.recipes.proof:GROWTH_PROOF",
    },
)
declare(
    "evodevo.procedures",
    {
        "grow": "evodevo.growth.rows:GROW",
        "grow_backbone": "evodevo.growth.backbone.rows:GROW",
    },
)
