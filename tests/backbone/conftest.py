"""Language models of a size that trains in a moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.problem import BackboneProblem
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.settings import merge, validate

SPACE = {"depth": 4, "dimensions": {"width": 64}}
SETTINGS: dict[str, Any] = {
    "language": {"context_length": 16},
    "training": {"budget": {"steps": 8}, "batch_size": 2, "device": "cpu", "report_every": 1},
    "validation_tokens": 128,
}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def problem(text: Path, cache: Path) -> Callable[..., BackboneProblem]:
    """``problem({...evaluation settings...}, space={...}, blobs=folder)``"""

    def make(
        changes: dict[str, Any] | None = None, *, space: dict[str, Any] | None = None, blobs: Path | None = None
    ) -> BackboneProblem:
        values = merge(merge(SETTINGS, {"language": {"data": str(text)}}), changes or {})
        settings = validate(EvaluationSettings, values, what="settings")
        chosen = validate(BackboneSettings, merge(SPACE, space or {}), what="space")
        return BackboneProblem(BackboneSpace(chosen), settings, blobs, cache)

    return make
