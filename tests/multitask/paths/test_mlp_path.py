"""MLP paths: what is stated is built and counted, what is put into a path changes no answer, statistics are those of
the training samples, samples are answered alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.multitask.hyperparameters import MU
from evodevo.multitask.paths.blocks_spec import BLOCK, EMBEDDING, HEAD, NORM
from evodevo.multitask.paths.mlp.builder import BUILDER
from evodevo.multitask.paths.mlp.kind import MLP, mlp_hyperparameters
from evodevo.multitask.paths.mlp.model import (
    BOUND,
    MLPPath,
    RowEmbedding,
    build_component,
    resize_block,
)
from evodevo.multitask.paths.mlp.spec import PRESETS, MLPStructure, path_work, role_parameters
from evodevo.multitask.settings import AgentSettings
from fixtures.block_paths import learned

SMALL = MLPStructure(width=12, layers=3, inputs=9, indicated=3, classes=5)
ROLE = "encoderblock_1"


def rows(count: int = 4, structure: MLPStructure = SMALL) -> Tensor:
    """Samples some of whose first numbers are missing."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, structure.inputs, generator=generator)
    gone = torch.rand(count, structure.indicated, generator=generator) < 0.3
    x[:, structure.indicated : 2 * structure.indicated] = gone.float()
    x[:, : structure.indicated][gone] = 0
    return x


def grown(path: MLPPath, structure: MLPStructure) -> MLPPath:
    """A path with wider or narrower blocks and more of them, as a child begins."""
    parts: dict[str, nn.Module] = {}
    for role in structure.roles:
        if role not in path.parts:
            parts[role] = build_component(structure, role, 7, identity=True)
            continue
        state = path.parts[role].state_dict()
        state = resize_block(structure, role, state, 7) if role.startswith(BLOCK) else state
        parts[role] = BUILDER.restore(structure, role, state)
    return MLPPath(structure, parts).eval()


@pytest.mark.parametrize("changes", [{}, {"inner": 1.5}, {"layers": 0}, {"inputs": 40, "indicated": 0}])
def test_stated_parameters_are_built_and_stated_products_computed(changes: dict[str, object]) -> None:
    structure = SMALL.changed(**changes)
    path = MLPPath.fresh(structure, 0).eval()
    assert {
        role: sum(one.numel() for one in part.parameters()) for role, part in path.components().items()
    } == role_parameters(structure)
    with torch.no_grad(), counting(path) as counter:
        represented = path.represent(rows(1, structure))
    assert counter.flops == path_work(structure.changed(classes=0)).total
    assert represented.pooled.shape == (1, structure.width)
    assert represented.tokens.shape == (1, 1, structure.width)


def test_presets_have_about_the_sizes_that_they_are_called_by() -> None:
    sizes = {name: sum(role_parameters(preset).values()) for name, preset in PRESETS.items()}
    assert sizes["tiny"] == pytest.approx(4_000, rel=0.2)
    assert sizes["small"] == pytest.approx(67_000, rel=0.1)
    assert sizes["base"] == pytest.approx(900_000, rel=0.1)


def test_added_blocks_change_no_answer_and_learn() -> None:
    path = learned(MLPPath.fresh(SMALL, 0))
    deeper = grown(path, SMALL.changed(layers=5))
    x = rows()
    assert torch.equal(deeper(x), path(x))
    parameters = deeper.learn(["encoderblock_4"])
    nn.functional.cross_entropy(deeper(x), torch.tensor([0, 1, 2, 3])).backward()
    torch.optim.SGD(parameters, 0.1).step()
    assert not torch.allclose(deeper(x), path(x))


def test_wider_blocks_answer_as_before_and_their_new_numbers_learn() -> None:
    path = learned(MLPPath.fresh(SMALL, 0)).double()
    wide = SMALL.changed(inner=2.0)
    wider = grown(path, wide).double()
    x = rows().double()
    torch.testing.assert_close(wider(x), path(x))
    optimizer = torch.optim.SGD(wider.learn([ROLE]), 0.1)
    first = wider.parts[ROLE].state_dict()["first.weight"].clone()
    for _ in range(2):  # a number learns once its way out does
        optimizer.zero_grad()
        nn.functional.cross_entropy(wider(x), torch.tensor([0, 1, 2, 3])).backward()
        optimizer.step()
    state = wider.parts[ROLE].state_dict()
    assert state["second.weight"][:, SMALL.hidden :].any()
    assert not torch.equal(state["first.weight"][SMALL.hidden :], first[SMALL.hidden :])
    again = grown(grown(path, wide).double(), SMALL).double()
    assert all(torch.equal(tensor, path.state_dict()[name]) for name, tensor in again.state_dict().items())


def test_blocks_of_other_inner_width_are_made_of_each_other_and_others_are_not() -> None:
    wide, other = SMALL.changed(inner=2.0), SMALL.changed(width=16)
    assert SMALL.signature(ROLE) != wide.signature(ROLE)
    assert MLP.resizable(SMALL, ROLE) == MLP.resizable(wide, ROLE) != MLP.resizable(other, ROLE)
    assert not any(MLP.resizable(SMALL, role) for role in (EMBEDDING, NORM, HEAD))


def test_numbers_are_standardised_by_the_training_samples_and_missing_ones_become_their_mean() -> None:
    x = rows(200).double()
    x[:, 0] = torch.where(x[:, 3] > 0, 0, 1000 + 50 * x[:, 0])
    x[:, 7] = 4.0
    embedding = RowEmbedding(SMALL).double()
    embedding.measure(x)
    there = x[:, 3] == 0
    assert embedding.mean[0] == pytest.approx(float(x[there, 0].mean()))
    assert 1 / embedding.factor[0] == pytest.approx(float(x[there, 0].std(correction=0)))
    scaled = embedding.scaled(x)
    assert not scaled[~there, 0].any()
    assert not scaled[:, 7].any()
    changed = x.clone()
    changed[:, 7] = 9.0  # it never varied, so that nothing was learned of it
    assert torch.equal(embedding(changed), embedding(x))
    assert scaled.abs().max() < BOUND
    far = x.clone()
    far[0, :3], far[0, 3:6] = 1e38, 0
    assert embedding.scaled(far)[0, :3].abs().max() == pytest.approx(BOUND)
    assert set(dict(embedding.named_buffers())) == {"mean", "factor"}


def test_other_columns_have_another_embedding_and_the_same_blocks() -> None:
    column = {"name": "a", "kind": "number", "values": [], "form": "", "size": 0, "reason": ""}
    mine = AgentSettings(classes=5, inputs=({"name": "row", "modality": "vector", "size": 9},), columns=(column,))
    other = mine.model_copy(update={"columns": ({**column, "name": "b"},)})
    root = PRESETS["tiny"]
    first, second = MLP.of_task(root, mine), MLP.of_task(root, other)
    assert (first.inputs, first.indicated) == (9, 1)
    assert first.signature(EMBEDDING) != second.signature(EMBEDDING)
    assert first.signature(ROLE) == second.signature(ROLE) == root.signature(ROLE)
    assert MLP.begins(first, ("vector:4",))
    assert not MLP.reads(first, ("vector:4",))
    assert MLP.reads(first, ("vector:9",))
    assert not MLP.begins(first, ("image", "tokens:bytes"))
    assert not MLP.reads(root, ("vector:9",)), "it has no embedding"


def test_samples_are_answered_alone() -> None:
    path = learned(MLPPath.fresh(SMALL, 0)).double()
    x = rows(6).double()
    for mode in (True, False):
        torch.testing.assert_close(path.train(mode)(x)[1:3], path(x[1:3]))


def test_a_new_head_answers_that_all_classes_are_equally_likely() -> None:
    assert torch.equal(MLPPath.fresh(SMALL, 3)(rows()), torch.zeros(4, 5))


def test_what_does_not_fit_is_refused() -> None:
    state = build_component(SMALL, ROLE, 0).state_dict()
    with pytest.raises(DataError, match="shape"):
        BUILDER.restore(SMALL.changed(inner=2.0), ROLE, state)
    with pytest.raises(UsageError, match="no component 'cls'"):
        build_component(SMALL, "cls", 0)
    with pytest.raises(UsageError, match="do not hold 5 numbers and an indicator of each"):
        SMALL.changed(indicated=5)
    with pytest.raises(UsageError, match="reads vectors of 9 numbers"):
        MLPPath.fresh(SMALL, 0)(torch.zeros(2, 8))
    with pytest.raises(UsageError, match="reads vectors of 0 numbers"):
        MLPPath.fresh(PRESETS["tiny"], 0)(torch.zeros(2, 0))
    with pytest.raises(UsageError, match="a root at random belongs to no table"):
        MLP.check_root(SMALL, "random_init")


@pytest.mark.parametrize("size", PRESETS)
def test_every_list_of_values_holds_the_preset_and_makes_paths(size: str) -> None:
    space, preset = mlp_hyperparameters(size), PRESETS[size]
    assert MU in space.by_key
    for key, field in MLP.fields.items():
        row = space.by_key[key]
        assert row.default == getattr(preset, field)
        for value in row.values:
            preset.changed(**{field: value}, classes=3)
    with pytest.raises(UsageError, match="no size 'huge'"):
        mlp_hyperparameters("huge")
