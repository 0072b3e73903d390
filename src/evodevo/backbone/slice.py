"""Rows of language-model backbones (STAR) in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.slices",
    {
        "backbone": "evodevo.backbone.runs:BACKBONE",
        "protocol": "evodevo.backbone.protocol.runs:PROTOCOL",
        "search_comparison": "evodevo.backbone.search_comparison.runs:SEARCH_COMPARISON",
    },
)
declare(
    "evodevo.recipes",
    {
        "backbone.demo": "evodevo.backbone.recipes:DEMO",
        "backbone.small": "evodevo.backbone.recipes:SMALL",
        "backbone.demo_protocol": "evodevo.backbone.protocol.recipes:DEMO",
        "backbone.quality": "evodevo.backbone.protocol.recipes:QUALITY",
        "backbone.size": "evodevo.backbone.protocol.recipes:SIZE",
        "backbone.cache": "evodevo.backbone.protocol.recipes:CACHE",
        "backbone.deep": "evodevo.backbone.protocol.recipes:DEEP",
        "backbone.algorithms": "evodevo.backbone.search_comparison.recipes:ALGORITHMS",
        "backbone.variation": "evodevo.backbone.search_comparison.recipes:VARIATION",
        "backbone.scales": "evodevo.backbone.search_comparison.recipes:SCALES",
    },
)
declare(
    "evodevo.objectives",
    {
        "induction": "evodevo.backbone.recall.objectives:INDUCTION",
        "mqar": "evodevo.backbone.recall.objectives:MQAR",
        "noisy_recall": "evodevo.backbone.recall.objectives:NOISY_RECALL",
        "selective_copying": "evodevo.backbone.recall.objectives:SELECTIVE_COPYING",
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
    "evodevo.model_exporters",
    {
        "hf": "evodevo.backbone.hugging_face.exporter:HF",
    },
)
declare(
    "evodevo.evaluators",
    {
        "backbone": "evodevo.backbone.evaluate:evaluate_backbone",
        "backbone_test": "evodevo.backbone.protocol.tested:evaluate_test",
        "backbone_pace": "evodevo.backbone.protocol.tested:measure_pace",
    },
)
