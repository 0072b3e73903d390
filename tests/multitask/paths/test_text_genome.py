"""The structure of a text path: roles, what fits where, what its agents tune."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import DATA
from evodevo.multitask.paths.blocks_spec import EMBEDDING, HEAD, POSITIONS, PathBlock
from evodevo.multitask.paths.kinds import KINDS, can_read
from evodevo.multitask.paths.text.kind import TEXT, text_hyperparameters
from evodevo.multitask.paths.text.spec import LENGTH, PRESETS, TextStructure, role_parameters, structure_of
from evodevo.settings import validate

TINY = PRESETS["tiny"]

STRUCTURES = st.builds(
    lambda heads, part, pairs, **rest: TextStructure(
        width=heads * part,
        heads=heads,
        tokenizer="bpe" if pairs else "bytes",
        vocabulary=256 + pairs,
        **rest,
    ),
    heads=st.integers(1, 4),
    part=st.integers(1, 16),
    pairs=st.integers(0, 300),
    length=st.integers(1, 99),
    hidden=st.integers(1, 64),
    layers=st.integers(0, 4),
    classes=st.integers(0, 12),
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
@settings(max_examples=15, deadline=None)
def test_a_structure_survives_json(structure: TextStructure) -> None:
    values = canonical.loads(canonical.dumps(structure.model_dump(mode="json")).encode())
    assert validate(TextStructure, values, what="a structure") == structure
    assert structure.changed() == structure


@given(structure=STRUCTURES)
@settings(max_examples=15, deadline=None)
def test_equal_signatures_have_equally_many_parameters(structure: TextStructure) -> None:
    other = structure.changed(
        classes=structure.classes + 1,
        length=structure.length + 1,
        layers=structure.layers + 1,
        tokenizer="bpe",
        vocabulary=structure.vocabulary + 1,
    )
    sizes, others = role_parameters(structure), role_parameters(other)
    assert tuple(sizes) == structure.roles
    for role in sizes:
        same = structure.signature(role) == other.signature(role)
        assert same == (role not in (EMBEDDING, POSITIONS, HEAD))
        assert same == (sizes[role] == others[role])


def test_values_decide_blocks_and_length() -> None:
    path = Path(
        agent="TextTiny~topics",
        number=3,
        task="topics",
        kind="text_path",
        classes=10,
        structure=TINY.model_dump(mode="json"),
        hparams={"num_layers": 1, LENGTH: 16, "opt_lr": 0.02},
    )
    assert structure_of(path) == TINY.changed(layers=1, length=16, classes=10)
    with pytest.raises(UsageError, match="vision_path"):
        structure_of(path.model_copy(update={"kind": "vision_path"}))
    with pytest.raises(UsageError, match="length"):
        structure_of(path.model_copy(update={"hparams": {LENGTH: 0}}))


def test_it_reads_bytes_and_nothing_else() -> None:
    path = Path(
        agent="TextTiny~a", number=0, task="a", kind="text_path", classes=2, structure=TINY.model_dump(mode="json")
    )
    picture = {**KINDS.get("vision_path").single().presets["tiny"].model_dump(mode="json")}
    vision = path.model_copy(update={"kind": "vision_path", "structure": picture})
    for modalities, text, image in (
        (("tokens:bytes",), True, False),
        (("image",), False, True),
        (("image", "tokens:bytes"), True, True),
        ((f"tokens:{64 * '0'}",), False, False),
        (("tokens",), False, False),
        ((), False, False),
    ):
        assert can_read(path, modalities) == text
        assert can_read(vision, modalities) == image


@pytest.mark.parametrize("size", PRESETS)
def test_an_agent_of_each_size_tunes_length_and_blocks_and_no_pictures(size: str) -> None:
    space = text_hyperparameters(size)
    values = space.defaults()
    assert PRESETS[size] == PRESETS[size].changed(layers=values["num_layers"], length=values[LENGTH])
    assert [key for key in space.by_key if key.startswith(DATA)] == [LENGTH]
    assert {"_mu_", "opt_lr", "opt_momentum", "num_layers", LENGTH} <= set(space.tuned)
    with pytest.raises(UsageError, match="tiny, small"):
        text_hyperparameters("huge")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heads": 5}, "5 attention heads do not divide the width 32"),
        ({"tokenizer": "bpe"}, "'bpe' a larger one, for example 4096; got 'bpe' with 256"),
        ({"vocabulary": 300}, "'bytes' has a vocabulary of 256"),
        ({"tokenizer": "words"}, "tokenizer"),
        ({"length": 0}, "length"),
        ({"blocks": {"encoderblock_01": {"kind": "lstm"}}}, "encoderblock_01"),
        ({"image_size": 8}, "image_size"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TINY.changed(**values)


def test_a_tokenizer_is_trained_on_a_task() -> None:
    subwords = TINY.changed(tokenizer="bpe", vocabulary=300)
    TEXT.check_root(subwords, "pretrain")
    TEXT.check_root(TINY, "random_init")
    with pytest.raises(UsageError, match="--root pretrain:NAME"):
        TEXT.check_root(subwords, "random_init")
