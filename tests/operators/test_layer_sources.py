"""Every row of the table of layers that has a source: what it writes computes what its module computes."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.operators.base import Operator
from evodevo.operators.classes import OPERATORS
from evodevo.operators.cost import Work
from evodevo.operators.layers.base import LAYERS, LayerSpec
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import Fragment, SourceSheet, folded
from evodevo.testing.layers import Sizes
from evodevo.testing.sources import check_layer

WIDTH = 16
NAMED = [spec for kind in LAYERS if (spec := LAYERS.get(kind).sized(Sizes())) is not None]
SPECS: list[LayerSpec] = [
    *NAMED,
    *(spec.model_copy(update={"width": 24}) for spec in NAMED),
    *(LIVLayer(operator=name, head_size=4, band=4) for name in OPERATORS),
    LIVLayer(operator="3.2.1.2.1", head_size=4),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.label}{spec.width or ''}")
def test_the_source_of_every_row_computes_what_its_module_computes(spec: LayerSpec, causal: bool) -> None:
    torch.manual_seed(0)
    for residual in (True, False):
        layer = build_layer(spec, WIDTH, causal=causal, residual=residual)
        check_layer(spec, layer, WIDTH, causal=causal, residual=residual)


def test_the_check_sees_a_source_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = MLPLayer(hidden=12)
    torch.manual_seed(0)
    layer = build_layer(spec, WIDTH, causal=False)
    wrong = MLPLayer.source

    def without_residual(self: MLPLayer, sheet: SourceSheet, width: int, *, causal: bool, residual: bool) -> str:
        return wrong(self, sheet, width, causal=causal, residual=False)

    monkeypatch.setattr(MLPLayer, "source", without_residual)
    with pytest.raises(AssertionError, match="mlp"):
        check_layer(spec, layer, WIDTH, causal=False)


class Silent(LayerSpec):
    kind: Literal["silent"] = "silent"

    def own_parameters(self, width: int, causal: bool) -> int:
        return 0

    def own_work(self, width: int, length: int, *, causal: bool, visible: bool) -> Work:
        return Work()

    def build(self, width: int, *, causal: bool, residual: bool) -> Operator:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Silent(), r"^a layer of kind 'silent' has no source; take --to pt2\.$"),
        (PretrainedLayer(path="bert", index=1), r"^layer 1 of the pretrained model at bert has no source: .*pt2\.$"),
    ],
)
def test_a_row_without_source_is_refused_with_one_sentence(spec: LayerSpec, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        layer_source(spec, SourceSheet(), WIDTH, causal=False)


def test_a_sheet_holds_each_class_once_after_what_it_needs() -> None:
    sheet = SourceSheet()
    low = Fragment("low", "def low():\n    return 1")
    high = Fragment("high", "def high():\n    return low()", (low,))
    assert [sheet.add(one) for one in (high, low, high)] == ["high", "low", "high"]
    assert list(sheet.parts) == ["low", "high"]
    with pytest.raises(UsageError, match="'low'"):
        sheet.add(Fragment("low", "def low():\n    return 2"))
    made = [sheet.write(key, "A-1", "class {}: pass".format) for key in (1, 1, 2)]
    assert made == ["A1", "A1", "A1_2"]


def test_long_lines_are_folded_into_the_same_program() -> None:
    names: dict[str, Any] = {}
    values = ", ".join(str(value) for value in range(100))
    text = f'def f():\n    """{"word " * 60}end."""\n    return [{values}]\n'
    exec(folded(text), names)
    assert names["f"]() == list(range(100))
    assert names["f"].__doc__.split() == [*["word"] * 60, "end."]
    assert max(map(len, folded(text).splitlines())) <= 120
