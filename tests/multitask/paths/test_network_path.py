"""A network as a path: what fits where, what it can read, what it costs; put together, and what it reads of samples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evodevo import canonical
from evodevo.errors import DataError, UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.kinds import KINDS, can_read
from evodevo.multitask.paths.network.dense import sized
from evodevo.multitask.paths.network.kind import NETWORK
from evodevo.multitask.paths.network.model import Loose, NetworkPath, part_of
from evodevo.multitask.paths.network.reading import read_samples
from evodevo.multitask.paths.network.spec import (
    HEAD,
    NORM,
    NetworkInput,
    NetworkPart,
    NetworkStructure,
    Newborns,
    role_of,
)
from evodevo.multitask.run import export
from evodevo.multitask.run.dense_export import DensePath
from evodevo.settings import validate
from evodevo.tasks.inputs import InputSpec
from fixtures.imports import small_structure

IMAGE = NetworkInput(name="image", modality="image", height=8, width=8, channels=1)
BYTES = NetworkInput(name="text", modality="tokens", length=16, vocabulary=256, tokenizer="bytes")
SUBWORDS = BYTES.model_copy(update={"tokenizer": "d" * 64, "vocabulary": 512})
NUMBERS = NetworkInput(name="numbers", modality="vector", size=4)
EVERY = ("image", "tokens:bytes", f"tokens:{'d' * 64}", "vector:4", "vector:5", "features:4")


def path_of(structure: NetworkStructure, classes: int = 0) -> Path:
    plain = structure.model_dump(mode="json")
    return Path(agent="Import~one", number=0, task="one", classes=classes, kind="network_path", structure=plain)


@given(
    st.integers(0, 50), st.lists(st.sampled_from([IMAGE, BYTES, NUMBERS]), min_size=1, unique_by=lambda one: one.name)
)
def test_storage_changes_nothing(classes: int, inputs: list[NetworkInput]) -> None:
    structure = small_structure(*inputs, newborns=Newborns(births={"a": 0.1}, twins={"a": "b"}), classes=classes)
    stored = canonical.loads(canonical.dumps(structure.model_dump(mode="json")))
    again = validate(NetworkStructure, stored, what="structure")
    assert again == structure
    assert again.roles == structure.roles
    assert [again.signature(role) for role in again.roles] == [structure.signature(role) for role in structure.roles]
    assert KINDS.get("network_path").single().structure_of(path_of(structure, classes)) == structure


def test_a_head_is_there_for_classes_alone_and_costs_what_it_says() -> None:
    bare, headed = small_structure(), small_structure().changed(classes=5)
    assert bare.roles == ("inputs", "core")
    assert headed.roles == ("inputs", "core", NORM, HEAD)
    assert NETWORK.parameters(headed) == {**NETWORK.parameters(bare), NORM: 16, HEAD: 45}
    assert NETWORK.flops(headed) == NETWORK.flops(bare) + 2 * 8 * 5
    assert NETWORK.flops(bare) > 0
    assert NETWORK.structure_of(path_of(bare, 5)) == headed


def test_a_part_fits_where_all_of_the_network_is_equal() -> None:
    structure = small_structure()
    assert structure.changed(classes=3).signature("core") == structure.signature("core")
    assert structure.signature("inputs") != structure.signature("core")
    others = [
        structure.changed(inputs=[IMAGE.model_copy(update={"height": 16}).model_dump()]),
        structure.changed(newborns={"births": {"0": 0.5}}),
        structure.changed(genome={**structure.genome, "more": 1}),
    ]
    for other in others:
        assert other.signature("core") != structure.signature("core")
    assert structure.changed(classes=3).signature(HEAD) != structure.changed(classes=4).signature(HEAD)
    with pytest.raises(UsageError, match="no component 'head'"):
        structure.signature(HEAD)


@pytest.mark.parametrize(
    ("inputs", "readable"),
    [
        ((IMAGE,), {"image"}),
        ((BYTES,), {"tokens:bytes"}),
        ((SUBWORDS,), {f"tokens:{'d' * 64}"}),
        ((NUMBERS,), {"vector:4"}),
    ],
)
def test_a_network_reads_its_own_modality_and_no_other(inputs: tuple[NetworkInput, ...], readable: set[str]) -> None:
    path = path_of(small_structure(*inputs))
    assert {one for one in EVERY if can_read(path, (one,))} == readable
    assert can_read(path, EVERY), "what else a sample has does not hinder"


def test_what_it_has_a_token_for_may_be_missing_but_not_all_of_it() -> None:
    optional = [one.model_copy(update={"use": "optional"}) for one in (IMAGE, BYTES)]
    either, both = path_of(small_structure(*optional)), path_of(small_structure(IMAGE, BYTES))
    blind = path_of(small_structure(BYTES, IMAGE.model_copy(update={"use": "unread"})))
    assert [can_read(either, one) for one in (("image",), ("tokens:bytes",), ("vector:4",), ())] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [can_read(both, one) for one in (("image",), ("tokens:bytes",), ("image", "tokens:bytes"))] == [
        False, False, True,
    ]  # fmt: skip
    assert not can_read(blind, ("image",))


def test_depth_and_size_are_settled() -> None:
    keys = NETWORK.hyperparameters("ti3", "paper").by_key
    assert {"opt_lr", "opt_momentum", "_mu_", "ds_flip_left_right"} <= set(keys)
    assert not {"num_layers", "ds_image_size", "adapter_dim"} & set(keys)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": [IMAGE.model_dump(), {**IMAGE.model_dump(), "name": "other"}]}, "several inputs of one kind"),
        ({"inputs": [{**IMAGE.model_dump(), "use": "unread"}]}, "reads nothing"),
        ({"parts": [NetworkPart(role=HEAD, name="head", parameters=1).model_dump()]}, "role of its own"),
        ({"adapters": {"residual_adapter_0": 4}}, "adapters"),
        ({"newborns": {"births": {"a": 2.0}}}, "births"),
    ],
)
def test_what_makes_no_path_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        small_structure().changed(**changes)


def test_parts_have_roles_that_collide_with_nothing() -> None:
    names = [".", "head", "head_norm", "core", "blocks.3"]
    roles = [role_of(name) for name in names]
    assert roles == ["tensors", "own_head", "own_head_norm", "core", "blocks.3"]


# Put together, and what it reads of samples that were made for others

TEXT = NetworkInput(name="text", modality="tokens", length=4, vocabulary=256, tokenizer="bytes")


def nothing() -> list[torch.Tensor]:
    raise AssertionError("nobody asked for images")


def test_a_new_head_holds_every_class_equally_likely_and_its_seed_decides_the_rest() -> None:
    structure = small_structure().changed(classes=5)
    model, again = NetworkPath(structure, seed=1), NetworkPath(structure, seed=1)
    batch = {"image": torch.randint(0, 256, (3, 8, 8, 1), dtype=torch.uint8)}
    assert torch.equal(model(batch), torch.zeros(3, 5))
    assert list(model.components()) == ["inputs", "core", NORM, HEAD]
    for mine, other in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(mine, other)
    assert NetworkPath(small_structure())(batch).shape == (3, 8)


def test_parts_take_weights_alone_or_out_of_a_blob_of_several() -> None:
    source, alone, packed = (NetworkPath(small_structure()) for _ in range(3))
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.normal_()
    together = {
        f"{role}/{name}": tensor
        for role, part in source.components().items()
        for name, tensor in part.state_dict().items()
    }
    for role, part in source.components().items():
        alone.put(role, part.state_dict())
        packed.put(role, together)
    batch = {"image": torch.randint(0, 256, (3, 8, 8, 1), dtype=torch.uint8)}
    with torch.no_grad():
        assert torch.equal(source(batch), alone(batch))
        assert torch.equal(source(batch), packed(batch))
    with pytest.raises(DataError, match="does not fit as 'core'"):
        alone.put("core", {"weight": torch.zeros(2)})


def test_loose_tensors_are_the_networks_own() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("scratch", torch.zeros(1), persistent=False)
            self.inner = nn.Linear(2, 2)

    net = Net()
    loose = part_of(net, ".")
    assert isinstance(loose, Loose)
    assert set(loose.state_dict()) == {"scale", "count"}
    loose.load_state_dict({"scale": torch.full((3,), 2.0), "count": torch.ones(1)})
    assert torch.equal(net.scale, torch.full((3,), 2.0))
    assert float(net.count) == 1
    assert part_of(net, "inner") is net.inner
    with pytest.raises(UsageError, match="no part 'outer'"):
        part_of(net, "outer")


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 3]), st.sampled_from([1, 3]), st.integers(0, 255))
def test_a_plain_picture_stays_plain_at_any_size(height: int, width: int, has: int, wants: int, grey: int) -> None:
    wanted = IMAGE.model_copy(update={"channels": wants, "height": 6, "width": 9})
    found = sized(torch.full((2, has, height, width), float(grey)), wanted)
    assert found.dtype == torch.uint8
    assert torch.equal(found, torch.full((2, 6, 9, wants), grey, dtype=torch.uint8))


def test_a_picture_of_its_own_size_is_read_to_the_bit() -> None:
    raw = torch.randint(0, 256, (4, 8, 8, 1), dtype=torch.uint8)
    assert torch.equal(sized(raw.permute(0, 3, 1, 2).float(), IMAGE), raw)


def test_inputs_are_found_by_their_modality_and_then_by_their_name() -> None:
    batch: dict[str, Any] = {
        "a": np.arange(10).reshape(2, 5),
        "a/mask": np.ones((2, 5), bool),
        "text": np.zeros((2, 3), np.int64),
        "text/present": np.array([True, False]),
    }
    one = read_samples([TEXT], [("a", "tokens")], batch, nothing)
    assert {name: tuple(value.shape) for name, value in one.items()} == {"text": (2, 4), "text/mask": (2, 4)}
    both = read_samples([TEXT], [("a", "tokens"), ("text", "tokens")], batch, nothing)
    assert set(both) == {"text", "text/present"}
    named = TEXT.model_copy(update={"name": "other"})
    with pytest.raises(UsageError, match=r"'other'.*a \(tokens\), text \(tokens\)"):
        read_samples([named], [("a", "tokens"), ("text", "tokens")], batch, nothing)


def test_what_is_optional_or_unread_is_left_out() -> None:
    batch = {"x": np.zeros((2, 3), np.float32)}
    inputs = [
        NetworkInput(name="numbers", modality="vector", size=3),
        TEXT.model_copy(update={"use": "optional"}),
        IMAGE.model_copy(update={"use": "unread"}),
    ]
    assert set(read_samples(inputs, [("x", "vector")], batch, nothing)) == {"numbers"}
    with pytest.raises(UsageError, match="reads tokens as 'text'"):
        read_samples([inputs[0], TEXT], [("x", "vector")], batch, nothing)


# As an export reads it


@pytest.mark.parametrize("spec", [IMAGE, TEXT, NUMBERS], ids=lambda spec: spec.modality)
@torch.no_grad()
def test_an_export_reads_samples_as_the_path_does(spec: NetworkInput) -> None:
    path = NetworkPath(small_structure(spec).changed(classes=5), seed=1)
    path.own[HEAD].weight.normal_()  # type: ignore[union-attr,operator]
    chance = np.random.default_rng(3)
    batch: dict[str, Any] = {"numbers": chance.normal(size=(3, 4)).astype(np.float32)}
    raw = torch.from_numpy(chance.integers(0, 256, (3, 11, 7, 3), dtype=np.uint8))
    ids = chance.integers(0, 256, (3, 9))
    real = np.arange(9) < np.asarray([[1], [3], [9]])
    batch |= {"text": ids, "text/mask": real}
    wanted = path(read_samples([spec], [(spec.name, spec.modality)], batch, lambda: [raw.permute(0, 3, 1, 2).float()]))
    given = {
        "image": raw,
        "tokens": torch.from_numpy(np.where(real, ids, -1)),
        "vector": torch.from_numpy(batch["numbers"]),
    }
    dense = DensePath(path)
    assert torch.equal(dense(given[spec.modality]), wanted)
    assert len(set(wanted.argsort(1).flatten().tolist())) > 1


def test_an_export_reads_one_input() -> None:
    several = small_structure(IMAGE, TEXT.model_copy(update={"use": "optional"})).changed(classes=5)
    with pytest.raises(UsageError, match=r"reads image \(image\), text \(tokens\); exported are those that read one"):
        DensePath(NetworkPath(several))


def test_rows_that_only_an_imported_network_reads_are_probed_without_statistics() -> None:
    dense = DensePath(NetworkPath(small_structure(NUMBERS).changed(classes=5)))
    answerer: Any = SimpleNamespace(samples=SimpleNamespace(table=None))
    read, _ = export._INPUTS["vector"](InputSpec("numbers", "vector", size=4), answerer, dense)
    assert dense(torch.from_numpy(read.probe(3))).shape == (3, 5)
    assert 0.5 < read.probe(500).std() < 2
