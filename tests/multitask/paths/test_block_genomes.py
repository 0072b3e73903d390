"""Structures of vision and text paths: roles, what fits where, the published sizes, what agents tune."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import DATA
from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, POSITIONS, PathBlock
from evodevo.multitask.paths.kinds import KINDS, can_read
from evodevo.multitask.paths.text import spec as text
from evodevo.multitask.paths.text.kind import text_hyperparameters
from evodevo.multitask.paths.text.spec import TextStructure
from evodevo.multitask.paths.vision import spec as vision
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.settings import validate

TINY = {"vision_path": vision.PRESETS["tiny"], "text_path": text.PRESETS["tiny"]}
SPECS: dict[str, Any] = {"vision_path": vision, "text_path": text}
# (preset, pixels, classes) -> parameters; docs/spec/munet.md#reference-numbers.
PARAMETERS = {
    ("Ti3", 32, 2): 1_484_162,
    ("B", 32, 2): 85_652_738,
    ("L", 224, 2): 303_303_682,
    ("L", 384, 1000): 304_715_752,
}


@pytest.mark.parametrize(("name", "pixels", "classes"), PARAMETERS)
def test_the_published_numbers_of_parameters(name: str, pixels: int, classes: int) -> None:
    structure = vision.PRESETS[name].changed(image_size=pixels, classes=classes)
    assert vision.path_parameters(structure) == PARAMETERS[name, pixels, classes]


def test_the_published_flops_and_sizes_of_components() -> None:
    tiny, large = vision.PRESETS["Ti3"], vision.PRESETS["L"]
    assert vision.path_flops(tiny.changed(classes=2)) == pytest.approx(1.451e7, rel=5e-4)
    assert vision.path_flops(large.changed(classes=1000)) == pytest.approx(3.821e11, rel=5e-4)
    assert vision.role_parameters(tiny.changed(classes=10)) == {
        "embedding": 147_648,
        "cls": 192,
        "posembed_input": 960,
        **{f"encoderblock_{number}": 444_864 for number in range(3)},
        "encoder_norm": 384,
        "head": 1930,
    }


SMALL = st.integers(1, 8)
SHARED: dict[str, Any] = {
    "heads": st.integers(1, 4),
    "part": st.integers(1, 16),
    "hidden": st.integers(1, 64),
    "layers": st.integers(0, 4),
    "classes": st.integers(0, 12),
    "blocks": st.dictionaries(
        st.sampled_from(["encoderblock_0", "encoderblock_2"]),
        st.builds(PathBlock, heads=st.integers(1, 4), key_width=SMALL, value_width=SMALL, hidden=st.integers(1, 64)),
    ),
}


def picture(heads: int, part: int, patch: int, grid: int, **rest: Any) -> VisionStructure:
    return VisionStructure(width=heads * part, heads=heads, patch=patch, image_size=patch * grid, **rest)


def written(heads: int, part: int, pairs: int, **rest: Any) -> TextStructure:
    tokenizer: Any = "bpe" if pairs else "bytes"
    return TextStructure(width=heads * part, heads=heads, tokenizer=tokenizer, vocabulary=256 + pairs, **rest)


STRUCTURES = st.one_of(
    st.builds(picture, patch=st.integers(1, 16), grid=SMALL, channels=st.sampled_from([1, 3]), **SHARED),
    st.builds(written, pairs=st.integers(0, 300), length=st.integers(1, 99), **SHARED),
)


@given(structure=STRUCTURES)
@settings(deadline=None)
def test_a_structure_survives_json_and_names_its_roles_once_in_order(structure: Any) -> None:
    values = canonical.loads(canonical.dumps(structure.model_dump(mode="json")).encode())
    assert validate(type(structure), values, what="a structure") == structure
    assert structure.changed() == structure
    roles = structure.roles
    assert len(set(roles)) == len(roles)
    assert roles[:3] == ("embedding", "cls", "posembed_input")
    assert (roles[-1] == HEAD) == (structure.classes > 0)
    blocks = [role for role in roles if role.startswith("encoderblock_")]
    assert blocks == [f"encoderblock_{number}" for number in range(structure.layers)]


@given(structure=STRUCTURES)
@settings(deadline=None)
def test_equal_signatures_have_equally_many_parameters(structure: Any) -> None:
    if isinstance(structure, VisionStructure):
        spec, changing, more = vision, {HEAD, POSITIONS}, {"image_size": 2 * structure.image_size}
    else:
        spec, changing = text, {EMBEDDING, POSITIONS, HEAD}
        more = {"length": structure.length + 1, "tokenizer": "bpe", "vocabulary": structure.vocabulary + 1}
    other = structure.changed(classes=structure.classes + 1, layers=structure.layers + 1, **more)
    sizes, others = spec.role_parameters(structure), spec.role_parameters(other)
    assert tuple(sizes) == structure.roles
    for role in sizes:
        same = structure.signature(role) == other.signature(role)
        assert same == (role not in changing)
        assert not same or sizes[role] == others[role]


def test_a_signature_tells_blocks_apart() -> None:
    tiny = TINY["vision_path"]
    wider = tiny.changed(blocks={"encoderblock_1": {**tiny.plain_block.model_dump(), "hidden": 65}})
    differing = [role for role in tiny.roles if tiny.signature(role) != wider.signature(role)]
    assert differing == ["encoderblock_1"]
    assert tiny.signature("encoderblock_0") != tiny.changed(activation="relu").signature("encoderblock_0")
    for role in ("encoderblock_9", "head"):
        with pytest.raises(UsageError, match=role):
            tiny.signature(role)


def path_of(kind: str, **hparams: Any) -> Path:
    plain: dict[str, Any] = {"agent": "Class~task", "number": 3, "task": "task", "classes": 10, "kind": kind}
    return Path(**plain, structure=TINY[kind].model_dump(mode="json"), hparams=hparams)


@pytest.mark.parametrize(
    ("kind", "key", "field", "value", "wrong", "says"),
    [
        ("vision_path", "ds_image_size", "image_size", 8, 10, "patches of 4; take 8"),
        ("text_path", "ds_length", "length", 16, 0, "length"),
    ],
)
def test_values_decide_blocks_and_size(kind: str, key: str, field: str, value: int, wrong: int, says: str) -> None:
    path, structure_of = path_of(kind, num_layers=1, opt_lr=0.02, **{key: value}), KINDS.get(kind).single().structure_of
    assert structure_of(path) == TINY[kind].changed(layers=1, classes=10, **{field: value})
    with pytest.raises(UsageError, match="multipath"):
        structure_of(path.model_copy(update={"kind": "multipath"}))
    with pytest.raises(UsageError, match=says):
        structure_of(path_of(kind, **{key: wrong}))


def test_a_path_reads_its_own_modality_and_nothing_else() -> None:
    for modalities, reads in (
        (("tokens:bytes",), {"text_path"}),
        (("image",), {"vision_path"}),
        (("image", "tokens:bytes"), {"text_path", "vision_path"}),
        ((f"tokens:{64 * '0'}",), set()),
        (("tokens",), set()),
        ((), set()),
    ):
        assert {kind for kind in TINY if can_read(path_of(kind), modalities)} == reads


@pytest.mark.parametrize("size", text.PRESETS)
def test_an_agent_of_texts_tunes_length_and_blocks_and_no_pictures(size: str) -> None:
    space, preset = text_hyperparameters(size), text.PRESETS[size]
    values = space.defaults()
    assert preset == preset.changed(layers=values["num_layers"], length=values[text.LENGTH])
    assert [key for key in space.by_key if key.startswith(DATA)] == [text.LENGTH]
    assert {"_mu_", "opt_lr", "opt_momentum", "num_layers", text.LENGTH} <= set(space.tuned)
    with pytest.raises(UsageError, match="tiny, small"):
        text_hyperparameters("huge")


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("vision_path", {"heads": 5}, "5 attention heads do not divide the width 32"),
        ("vision_path", {"image_size": 18}, "18 pixels cannot be cut into patches of 4; take 16"),
        ("vision_path", {"image_size": 3}, "take 4"),
        ("vision_path", {"blocks": {"encoderblock_01": {"kind": "lstm"}}}, "encoderblock_01"),
        ("vision_path", {"blocks": {"residual_adapter_0": {"kind": "lstm"}}}, "encoderblock_0, encoderblock_1"),
        ("vision_path", {"blocks": {"encoderblock_0": {"kind": "lstn"}}}, "lstn"),
        ("vision_path", {"adapters": {"residual_adapter_0": 8}}, "adapters"),
        ("vision_path", {"channels": 2}, "channels"),
        ("text_path", {"tokenizer": "bpe"}, "'bpe' a larger one, for example 4096; got 'bpe' with 256"),
        ("text_path", {"vocabulary": 300}, "'bytes' has a vocabulary of 256"),
        ("text_path", {"tokenizer": "words"}, "tokenizer"),
        ("text_path", {"length": 0}, "length"),
        ("text_path", {"image_size": 8}, "image_size"),
    ],
)
def test_what_does_not_fit_is_refused(kind: str, values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TINY[kind].changed(**values)


def test_any_layer_of_the_library_may_be_a_block() -> None:
    tiny = vision.PRESETS["tiny"]
    structure = tiny.changed(
        blocks={"encoderblock_0": {"kind": "lstm"}, "encoderblock_1": {"kind": "mlp", "hidden": 8}}
    )
    assert canonical.loads(structure.model_dump_json())["blocks"]["encoderblock_1"]["hidden"] == 8
    plain, mixed = vision.role_parameters(tiny), vision.role_parameters(structure)
    # A norm's gain, two maps with biases, and the gate.
    assert mixed["encoderblock_1"] == 32 + 2 * 32 * 8 + 8 + 32 + 32
    assert {role for role in plain if plain[role] != mixed[role]} == set(structure.blocks)
