"""Paths of blocks, over images and over texts: what is stated is built, parts are shared, what a path knew it keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.paths.blocks_spec import HEAD, POSITIONS
from evodevo.multitask.paths.model import BlockPath
from evodevo.multitask.paths.text import spec as text_spec
from evodevo.multitask.paths.text.builder import BUILDER as TEXT_BUILDER
from evodevo.multitask.paths.text.model import MASK, TOKENS, TextPath
from evodevo.multitask.paths.vision import spec as vision_spec
from evodevo.multitask.paths.vision.builder import BUILDER as VISION_BUILDER
from evodevo.multitask.paths.vision.model import VisionPath
from fixtures.block_paths import images, learned


def texts(structure: Any, batch: int, seed: int = 0) -> dict[str, Tensor]:
    ids = torch.randint(0, 256, (batch, structure.length), generator=torch.Generator().manual_seed(seed))
    return {TOKENS: ids, MASK: torch.ones_like(ids, dtype=torch.bool)}


def other_patch(x: Tensor) -> Tensor:
    """The last patch, farthest from the class token."""
    return torch.cat([x[..., :-4], torch.cat([x[..., :-4, -4:], -x[..., -4:, -4:]], -2)], -1)


def other_byte(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    ids = batch[TOKENS].clone()
    ids[:, -1] ^= 1
    return {**batch, TOKENS: ids}


@dataclass(frozen=True)
class Family:
    """How a path is built, what it reads, and the same with its last token changed."""

    tiny: Any
    path: type[BlockPath[Any, Any]]
    builder: Any
    sizes: Callable[[Any], dict[str, int]]
    work: Callable[[Any], Any]
    samples: Callable[..., Any]
    other: Callable[[Any], Any]
    short: dict[str, Any]
    """Fewest tokens."""

    def fresh(self, structure: Any) -> Any:
        parts = {role: self.path.component(structure, role, 0) for role in structure.roles}
        return self.path(structure, parts)

    def learned(self, structure: Any) -> Any:
        return learned(self.fresh(structure))


VISION = Family(
    vision_spec.PRESETS["tiny"].changed(classes=5),
    VisionPath,
    VISION_BUILDER,
    vision_spec.role_parameters,
    vision_spec.path_work,
    images,
    other_patch,
    {"image_size": 8},
)
TEXT = Family(
    text_spec.PRESETS["tiny"].changed(classes=5, length=12),
    TextPath,
    TEXT_BUILDER,
    text_spec.role_parameters,
    text_spec.path_work,
    texts,
    other_byte,
    {"length": 4},
)
FAMILIES = {"vision": VISION, "text": TEXT}
LAYERS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "heads": 2},
    "mlp": {"kind": "mlp", "hidden": 9},
    "convolution": {"kind": "convolution", "kernel": 9},
    "lstm": {"kind": "lstm"},
    "adapted": {"kind": "lstm", "width": 8},
    "SA-1": {"kind": "liv", "operator": "SA-1"},
    "Rec-1": {"kind": "liv", "operator": "Rec-1"},
    "GConv-1": {"kind": "liv", "operator": "GConv-1"},
    "h_model": {
        "kind": "h_model",
        "structure": {"width": 64, "hidden": [{"kind": "lstm"}], "iterations": 2, "causal": False},
    },
}
DEAF = {"mlp", "h_model"}
"""Layers whose class token hears nobody."""


def structures(family: Family) -> dict[str, Any]:
    wide = family.tiny.changed(width=64, heads=4, layers=1)  # LIVs want 64 channels
    return {
        "tiny": family.tiny,
        "headless": family.tiny.changed(classes=0),
        "no layers": family.tiny.changed(layers=0),
        **{name: wide.changed(blocks={"encoderblock_0": layer}) for name, layer in LAYERS.items()},
    }


uneven = {"encoderblock_1": {"kind": "vit", "heads": 3, "key_width": 5, "value_width": 7, "hidden": 11}}
STRUCTURES = {
    **{(name, key): structure for name, family in FAMILIES.items() for key, structure in structures(family).items()},
    ("vision", "uneven"): VISION.tiny.changed(blocks=uneven),
    ("vision", "grey"): VISION.tiny.changed(channels=1, image_size=8),
}


@pytest.mark.parametrize(("name", "key"), STRUCTURES)
def test_stated_parameters_are_built_and_stated_products_computed(name: str, key: str) -> None:
    family, structure = FAMILIES[name], STRUCTURES[name, key]
    path = family.fresh(structure).eval()
    built = {role: sum(p.numel() for p in part.parameters()) for role, part in path.components().items()}
    assert built == family.sizes(structure)
    assert list(built) == list(structure.roles)
    with torch.no_grad(), counting(path) as counter:
        path(family.samples(structure, 1))
    more = counter.flops - family.work(structure).products
    # The router of an H-Model takes the mean of what a mask leaves by a product, two for each place and each mean.
    assert more == 0 if (name, key) != ("text", "h_model") else 0 <= more <= 1e-4 * counter.flops


@pytest.mark.parametrize("key", structures(TEXT))
def test_padding_counts_nothing(key: str) -> None:
    path = TEXT.learned(STRUCTURES["text", key]).double()
    lengths = torch.tensor([[7], [3], [0], [1]])
    ids = texts(TEXT.tiny, 4)[TOKENS]

    def batch(columns: int, fill: int = 0) -> dict[str, Tensor]:
        mask = torch.arange(columns) < lengths
        return {TOKENS: torch.where(mask, ids[:, :columns], fill), MASK: mask}

    plain, padded = batch(7), batch(12)
    with torch.no_grad():
        answer = path(plain)
        torch.testing.assert_close(path(padded), answer)
        assert torch.equal(path(padded), path(batch(12, fill=77))), "what stands behind a text is not looked at"
        alone = torch.cat([path({key: value[row : row + 1] for key, value in plain.items()}) for row in range(4)])
        torch.testing.assert_close(alone, answer)
    assert path.represent(padded).mask.sum(1).tolist() == [8, 4, 1, 2]


@pytest.mark.parametrize(("name", "key"), [one for one in STRUCTURES if one[1] not in {*DEAF, "no layers"}])
def test_the_class_token_hears_the_last_token_through_any_layer(name: str, key: str) -> None:
    family, structure = FAMILIES[name], STRUCTURES[name, key].changed(**FAMILIES[name].short)
    path = family.learned(structure)
    batch = family.samples(structure, 1)  # a convolution of nine taps reaches four places
    assert not torch.allclose(path(batch), path(family.other(batch)), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "key"), [("vision", "tiny"), ("text", "tiny"), *(("vision", key) for key in ("lstm", "mlp", "h_model"))]
)
def test_a_new_layer_answers_the_same_and_learns(name: str, key: str) -> None:
    family, structure = FAMILIES[name], STRUCTURES[name, key]
    path, role = family.learned(structure), f"encoderblock_{structure.layers}"
    blocks = {**structure.model_dump(mode="json")["blocks"], **({role: LAYERS[key]} if key in LAYERS else {})}
    deeper = structure.changed(layers=structure.layers + 1, blocks=blocks)
    grown, random = (
        family.path(deeper, {**path.components(), role: family.path.component(deeper, role, 5, identity=same)})
        for same in (True, False)
    )
    batch = family.samples(structure, 3)
    assert torch.equal(grown.eval()(batch), path(batch))
    assert not torch.allclose(random.eval()(batch), path(batch))
    parameters = grown.learn([role])
    nn.functional.cross_entropy(grown(batch), torch.tensor([0, 1, 2])).backward()
    torch.optim.SGD(parameters, 0.1).step()
    assert not torch.allclose(grown(batch), path(batch)), "it is there"


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_depend_on_seed_and_role_alone(name: str) -> None:
    family = FAMILIES[name]
    torch.manual_seed(1)
    build = family.path.component
    first = build(family.tiny, "encoderblock_0", 5).state_dict()
    state = torch.random.get_rng_state()
    build(family.tiny, "encoderblock_1", 5)
    again = build(family.tiny, "encoderblock_0", 5).state_dict()
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(first[key], again[key]) for key in first)
    for role, seed in (("encoderblock_1", 5), ("encoderblock_0", 6)):
        assert not torch.equal(first["query.weight"], build(family.tiny, role, seed).state_dict()["query.weight"])


@pytest.mark.parametrize(
    ("name", "key"), [("vision", "tiny"), ("text", "tiny"), *(("vision", key) for key in ("lstm", "Rec-1", "h_model"))]
)
def test_a_component_from_weights_is_a_copy_that_learns(name: str, key: str) -> None:
    family, structure = FAMILIES[name], STRUCTURES[name, key]
    path = family.learned(structure)
    before = copy.deepcopy(path.state_dict())
    parts = {
        role: family.builder.restore(structure, role, part.state_dict()) for role, part in path.components().items()
    }
    batch = family.samples(structure, 2)
    again = family.path(structure, parts)
    assert torch.equal(again.eval()(batch), path(batch))
    assert {p.dtype for p in again.parameters()} == {torch.float32}
    assert all(p.requires_grad and p.device.type == "cpu" for p in again.parameters())
    learned(again)
    assert all(torch.equal(tensor, before[key]) for key, tensor in path.state_dict().items())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_component_is_shared_and_a_headless_path_answers_the_class_token(name: str) -> None:
    family = FAMILIES[name]
    path, batch = family.learned(family.tiny), family.samples(family.tiny, 3)
    parts = path.components()
    headless = family.path(family.tiny.changed(classes=0), {r: p for r, p in parts.items() if r != HEAD})
    other = family.tiny.changed(classes=3)
    second = family.path(other, {**parts, HEAD: family.path.component(other, HEAD, 1)})
    for one in (headless, second):
        assert all(part is parts[role] for role, part in one.components().items() if role != HEAD)
    assert second(batch).shape == (3, 3)
    token = headless(batch)
    assert token.shape == (3, family.tiny.width)
    assert torch.equal(token, path.represent(batch).pooled)
    assert torch.equal(path.represent(batch).tokens[:, 0], token)
    assert torch.equal(parts[HEAD](token), path(batch))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("key", ["tiny", "lstm"])
def test_half_precision_answers_nearly_the_same(name: str, key: str) -> None:
    family, structure = FAMILIES[name], STRUCTURES[name, key]
    path, batch = family.learned(structure), family.samples(structure, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        half = path(batch)
    torch.testing.assert_close(half.float(), path(batch).detach(), rtol=0.1, atol=0.1)


def test_weights_of_another_structure_are_refused() -> None:
    tiny, from_state = VISION.tiny, VISION_BUILDER.restore
    state = VisionPath.component(tiny, HEAD, 0).state_dict()
    with pytest.raises(DataError, match=r"'head' has 'project\.bias' of shape \(5,\), and this path needs \(6,\)"):
        from_state(tiny.changed(classes=6), HEAD, state)
    with pytest.raises(DataError, match=r"'head' lacks 'project\.bias'"):
        from_state(tiny, HEAD, {"project.weight": state["project.weight"]})
    with pytest.raises(DataError, match=r"'head' has an unknown 'extra'"):
        from_state(tiny, HEAD, {**state, "extra": torch.zeros(1)})
    positions = TextPath.component(TEXT.tiny, POSITIONS, 0).state_dict()
    with pytest.raises(DataError, match="of shape"):
        TEXT_BUILDER.restore(TEXT.tiny.changed(length=9), POSITIONS, positions)
    with pytest.raises(DataError, match="unknown 'tokenizer'"):
        TEXT_BUILDER.restore(TEXT.tiny, POSITIONS, {**positions, "tokenizer": torch.zeros(3)})


def test_a_path_needs_all_its_components_and_no_others() -> None:
    tiny, parts = VISION.tiny, VISION.fresh(VISION.tiny).components()
    with pytest.raises(UsageError, match="lacks the component 'encoderblock_3'"):
        VisionPath(tiny.changed(layers=4), parts)
    with pytest.raises(UsageError, match="no place for the component 'encoderblock_2'"):
        VisionPath(tiny.changed(layers=2), parts)
    with pytest.raises(UsageError, match="'posembed_input' has 544 parameters, and this path needs 2080"):
        VisionPath(tiny.changed(image_size=32), parts)
    with pytest.raises(UsageError, match=r"\(3, 16, 16\); \(3, 8, 8\) were given"):
        VisionPath(tiny, parts)(torch.zeros(2, 3, 8, 8))


def test_an_h_model_that_hears_one_way_is_refused() -> None:
    spec = copy.deepcopy(LAYERS["h_model"])
    spec["structure"]["causal"] = True
    wide = VISION.tiny.changed(width=64, heads=4, layers=1, blocks={"encoderblock_0": spec})
    with pytest.raises(UsageError, match="causal = false"):
        VisionPath.component(wide, "encoderblock_0", 0)


def test_a_gate_of_one_is_the_layer_itself() -> None:
    structure = VISION.tiny.changed(blocks={"encoderblock_0": {"kind": "lstm"}})
    block = VisionPath.component(structure, "encoderblock_0", 1)
    x = torch.randn(2, 5, 32)
    assert torch.equal(block(x), block.layer(x).y)  # type: ignore[operator]
