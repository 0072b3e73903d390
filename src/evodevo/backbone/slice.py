"""Rows of language-model backbones (STAR) in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.slices",
    {
        "backbone": "evodevo.backbone.runs:BACKBONE",
    },
)
declare(
    "evodevo.recipes",
    {
        "backbone.demo": "evodevo.backbone.recipes:DEMO",
        "backbone.small": "evodevo.backbone.recipes:SMALL",
    },
)
declare(
    "evodevo.layers",
    {
        "span": "evodevo.backbone.span_layer:SpanLayer",
    },
)
declare(
    "evodevo.networks",
    {
        "backbone": "evodevo.backbone.network:BackboneNetwork",
    },
)
declare(
    "evodevo.evaluators",
    {
        "backbone": "evodevo.backbone.evaluate:evaluate_backbone",
    },
)
