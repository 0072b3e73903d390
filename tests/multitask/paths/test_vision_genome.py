"""The structure of a vision path: roles, what fits where, and the published sizes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.blocks_spec import HEAD, POSITIONS, PathBlock
from evodevo.multitask.paths.vision.spec import (
    PRESETS,
    VisionStructure,
    path_flops,
    path_parameters,
    role_parameters,
    structure_of,
)
from evodevo.settings import validate

# (preset, pixels, classes) -> parameters; docs/spec/munet.md#reference-numbers.
PARAMETERS = {
    ("Ti3", 32, 2): 1_484_162,
    ("B", 32, 2): 85_652_738,
    ("L", 224, 2): 303_303_682,
    ("L", 384, 1000): 304_715_752,
}


@pytest.mark.parametrize(("name", "pixels", "classes"), PARAMETERS)
def test_the_published_numbers_of_parameters(name: str, pixels: int, classes: int) -> None:
    structure = PRESETS[name].changed(image_size=pixels, classes=classes)
    assert path_parameters(structure) == PARAMETERS[name, pixels, classes]


def test_the_published_flops() -> None:
    assert path_flops(PRESETS["Ti3"].changed(classes=2)) == pytest.approx(1.451e7, rel=5e-4)
    assert path_flops(PRESETS["L"].changed(classes=1000)) == pytest.approx(3.821e11, rel=5e-4)


def test_the_published_sizes_of_components() -> None:
    assert role_parameters(PRESETS["Ti3"].changed(classes=10)) == {
        "embedding": 147_648,
        "cls": 192,
        "posembed_input": 960,
        "encoderblock_0": 444_864,
        "encoderblock_1": 444_864,
        "encoderblock_2": 444_864,
        "encoder_norm": 384,
        "head": 1930,
    }


STRUCTURES = st.builds(
    lambda heads, part, patch, grid, **rest: VisionStructure(
        width=heads * part, heads=heads, patch=patch, image_size=patch * grid, **rest
    ),
    heads=st.integers(1, 4),
    part=st.integers(1, 16),
    patch=st.integers(1, 16),
    grid=st.integers(1, 8),
    hidden=st.integers(1, 64),
    layers=st.integers(0, 4),
    classes=st.integers(0, 12),
    channels=st.sampled_from([1, 3]),
    blocks=st.dictionaries(
        st.sampled_from(["encoderblock_0", "encoderblock_2"]),
        st.builds(
            PathBlock,
            heads=st.integers(1, 4),
            key_width=st.integers(1, 8),
            value_width=st.integers(1, 8),
            hidden=st.integers(1, 64),
        ),
    ),
)


@given(structure=STRUCTURES)
@settings(max_examples=25, deadline=None)
def test_a_structure_survives_json(structure: VisionStructure) -> None:
    values = canonical.loads(canonical.dumps(structure.model_dump(mode="json")).encode())
    assert validate(VisionStructure, values, what="a structure") == structure
    assert structure.changed() == structure


@given(structure=STRUCTURES)
@settings(max_examples=25, deadline=None)
def test_roles_are_named_once_in_order(structure: VisionStructure) -> None:
    roles = structure.roles
    assert len(set(roles)) == len(roles)
    assert roles[:3] == ("embedding", "cls", "posembed_input")
    assert (roles[-1] == HEAD) == (structure.classes > 0)
    assert [role for role in roles if role.startswith("encoderblock_")] == [
        f"encoderblock_{number}" for number in range(structure.layers)
    ]


@given(structure=STRUCTURES)
@settings(max_examples=25, deadline=None)
def test_equal_signatures_have_equally_many_parameters(structure: VisionStructure) -> None:
    other = structure.changed(
        classes=structure.classes + 1, image_size=2 * structure.image_size, layers=structure.layers + 1
    )
    sizes, others = role_parameters(structure), role_parameters(other)
    for role in sizes:
        same = structure.signature(role) == other.signature(role)
        assert same == (role not in (HEAD, POSITIONS))
        assert not same or sizes[role] == others[role]


def test_a_signature_tells_blocks_apart() -> None:
    tiny = PRESETS["tiny"]
    wider = tiny.changed(blocks={"encoderblock_1": {**tiny.plain_block.model_dump(), "hidden": 65}})
    differing = [role for role in tiny.roles if tiny.signature(role) != wider.signature(role)]
    assert differing == ["encoderblock_1"]
    assert tiny.signature("encoderblock_0") != tiny.changed(activation="relu").signature("encoderblock_0")


def test_hyperparameters_decide_layers_and_pixels() -> None:
    path = Path(
        agent="Vit~digits",
        number=3,
        task="digits",
        classes=10,
        structure=PRESETS["tiny"].model_dump(mode="json"),
        hparams={"num_layers": 1, "ds_image_size": 8, "opt_lr": 0.02},
    )
    assert structure_of(path) == PRESETS["tiny"].changed(layers=1, image_size=8, classes=10)
    with pytest.raises(UsageError, match="multipath"):
        structure_of(path.model_copy(update={"kind": "multipath"}))
    with pytest.raises(UsageError, match="patches of 4; take 8"):
        structure_of(path.model_copy(update={"hparams": {"ds_image_size": 10}}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heads": 5}, "5 attention heads do not divide the width 32"),
        ({"image_size": 18}, "18 pixels cannot be cut into patches of 4; take 16"),
        ({"image_size": 3}, "take 4"),
        ({"blocks": {"encoderblock_01": {"kind": "lstm"}}}, "encoderblock_01"),
        ({"blocks": {"residual_adapter_0": {"kind": "lstm"}}}, "encoderblock_0, encoderblock_1"),
        ({"blocks": {"encoderblock_0": {"kind": "lstn"}}}, "lstn"),
        ({"adapters": {"residual_adapter_0": 8}}, "adapters"),
        ({"channels": 2}, "channels"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PRESETS["tiny"].changed(**values)


def test_no_component_of_another_name() -> None:
    with pytest.raises(UsageError, match="encoderblock_9"):
        PRESETS["tiny"].signature("encoderblock_9")
    with pytest.raises(UsageError, match="head"):
        PRESETS["tiny"].signature("head")


def test_a_structure_is_frozen() -> None:
    with pytest.raises(ValidationError):
        PRESETS["tiny"].layers = 2


def test_any_layer_of_the_library_may_be_a_block() -> None:
    blocks = {"encoderblock_0": {"kind": "lstm"}, "encoderblock_1": {"kind": "mlp", "hidden": 8}}
    structure = PRESETS["tiny"].changed(blocks=blocks)
    assert json.loads(structure.model_dump_json())["blocks"]["encoderblock_1"]["hidden"] == 8
    plain, mixed = role_parameters(PRESETS["tiny"]), role_parameters(structure)
    # A norm's gain, two maps with biases, and the gate.
    assert mixed["encoderblock_1"] == 32 + 2 * 32 * 8 + 8 + 32 + 32
    assert {role for role in plain if plain[role] != mixed[role]} == set(blocks)
