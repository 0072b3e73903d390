"""Zoos by name, zoos from plain data, and the network of the paper."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.module_zoo.named import named_zoo, paper, zoo_structure


def kinds(structure: Any) -> list[str]:
    return [module.genotype.archetype for module in structure.modules]


SIX = ["transformer", "mlp", "resnet1d", "lstm", "cnn", "squeeze_excite"]


def test_zoos_by_name() -> None:
    assert [one.genotype.archetype for one in named_zoo("start", 16)] == SIX
    assert len(named_zoo("table_3", 16)) == 9
    chosen = named_zoo(["mlp", "lstm", "mlp"], 16)
    assert [one.id for one in chosen] == ["mlp-1", "lstm-1", "mlp-2"]
    assert len({one.seed for one in chosen}) == 3
    assert named_zoo("mlp, lstm,mlp", 16) == chosen
    assert kinds(zoo_structure({"modules": "cnn", "width": 8})) == ["cnn"]
    assert {one.genotype.width for one in chosen} == {16}


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ("strat", "unknown zoo 'strat'. Did you mean 'start'"),
        (["mpl"], "unknown archetype 'mpl'. Did you mean 'mlp'"),
        ("mpl", "unknown zoo 'mpl'. Did you mean 'mlp'"),
        ("cnn,mpl", "unknown archetype 'mpl'. Did you mean 'mlp'"),
        ("cnn,", "unknown archetype ''"),
        ([], "at least one module"),
    ],
)
def test_zoos_that_are_none(modules: Any, words: str) -> None:
    with pytest.raises(UsageError) as error:
        named_zoo(modules, 16)
    assert words in str(error.value)


def test_a_zoo_from_plain_data() -> None:
    assert (zoo_structure({}).width, kinds(zoo_structure({}))) == (64, SIX)
    wide = zoo_structure({"width": 32, "router": {"top_k": 2}})
    assert (wide.width, wide.router.top_k, kinds(wide)) == (32, 2, SIX)
    assert kinds(zoo_structure({"modules": ["mlp"], "width": 8})) == ["mlp"]
    named = zoo_structure({"modules": "table_3"}, wide)
    assert (named.router.top_k, len(named.modules)) == (2, 9)
    given = zoo_structure({"modules": [one.model_dump(mode="json") for one in wide.modules[:2]]}, wide)
    assert given.modules == wide.modules[:2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"widht": 8}, "did you mean 'width'"),
        ({"router": {"topk": 8}}, "did you mean 'top_k'"),
        ({"width": "wide"}, "width"),
        ({"width": -1}, "width"),
        ({"width": 10**9}, "width"),
        ({"width": 30}, "does not divide the width 30"),
        ({"modules": "six"}, "unknown zoo 'six'"),
        ({"router": 3}, "router"),
    ],
)
def test_wrong_settings_of_a_zoo_are_told_with_their_place(changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        zoo_structure(changes)


def test_the_paper() -> None:
    structure = paper()
    assert (structure.width, len(structure.modules), structure.dropout) == (512, 9, 0.1)
    assert {name: one.kind for name, one in structure.extractors.items()} == dict.fromkeys(
        ("text", "image"), "hugging_face"
    )
    assert structure.router.top_k == 9, "its K is not given: all may count"
    assert paper(None, None).extractors == {}
