"""Rows of H-Models in the tables of lower rooms."""

from evodevo.registry import declare

declare(
    "evodevo.slices",
    {
        "h_model": "evodevo.h_model.runs:H_MODEL",
    },
)
declare(
    "evodevo.recipes",
    {
        "h_model.domains": "evodevo.h_model.recipes.domains:DOMAINS",
        "h_model.extend": "evodevo.h_model.recipes.extend:EXTEND",
        "h_model.image_text": "evodevo.h_model.recipes.image_text:IMAGE_TEXT",
        "h_model.languages": "evodevo.h_model.recipes.languages:LANGUAGES",
        "h_model.pointer": "evodevo.h_model.recipes.pointer:POINTER",
        "h_model.pretrained": "evodevo.h_model.recipes.pretrained:PRETRAINED",
        "h_model.programs": "evodevo.h_model.recipes.programs:PROGRAMS",
        "h_model.proofs": "evodevo.h_model.recipes.proofs:PROOFS",
        "h_model.small": "evodevo.h_model.recipes.search:SMALL",
        "h_model.sweep": "evodevo.h_model.recipes.sweep:SWEEP",
        "h_model.tokens": "evodevo.h_model.recipes.tokens:TOKENS",
    },
)
declare(
    "evodevo.networks",
    {
        "h_model": "evodevo.h_model.network:HModelNetwork",
    },
)
declare(
    "evodevo.layers",
    {
        "h_model": "evodevo.h_model.nested_layer:NestedLayer",
    },
)
declare(
    "evodevo.procedures",
    {
        "pretrained": "evodevo.h_model.procedures.rows:PRETRAINED",
        "extend": "evodevo.h_model.procedures.rows:EXTEND",
        "routes": "evodevo.h_model.procedures.rows:ROUTES",
    },
)
