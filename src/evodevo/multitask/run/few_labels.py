"""The settings of agents for a task of few labelled samples, about twenty of each class.

Source: docs/extend.md#few-labelled-samples; the row ``main_dropout`` of the recipe ``multitask.multipath``.
"""

from __future__ import annotations

from typing import Any

SINGLE: dict[str, Any] = {"training": {"objective": "likelihood"}}
"""Of an agent with one path: few validation samples do not tell its children apart by accuracy."""
COMBINED: dict[str, Any] = {
    "most_paths": 8,
    "hyperparameters": {
        "num_paths": {"values": [2, 3, 4, 6, 8], "default": 6},
        "router_init_main_path_weight": {"values": [0.35, 0.5, 0.65, 0.8], "default": 0.5},
        "opt_lr": {"values": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5], "default": 0.1},
    },
}
"""Options of an agent that combines paths: up to seven supports, a smaller w*, a larger rate."""
MAIN_DROPOUT = 0.5
"""Share of training samples without the main path, which knows them by heart."""
TWIN: dict[str, Any] = {**SINGLE, **COMBINED, "structure": {"main_dropout": MAIN_DROPOUT}}
"""All changes of an agent that combines paths."""
