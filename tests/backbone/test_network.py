"""A backbone keeps the contract of networks, and a checkpoint of it comes back as one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UnsafeFileError, UsageError
from evodevo.networks.build import build_network
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkEnvelope
from evodevo.operators.spec import Dimensions
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.language import windows_of
from evodevo.testing.networks import CLASS, IMAGE, NEXT, TEXT, small_backbone, small_batch
from evodevo.training import checkpoints

SPACE = BackboneSpace(BackboneSettings(depth=8, dimensions=Dimensions(width=16, head_size=4)))
GENOME = SPACE.named("striped-mamba")


def test_a_name_and_its_genome_are_one_network() -> None:
    named = validate(
        NetworkEnvelope,
        {
            "network": {
                "kind": "backbone",
                "structure": {"space": SPACE.settings.model_dump(), "genome": "striped-mamba"},
            }
        },
        what="a network",
    ).network
    written = BackboneNetwork.of(SPACE, GENOME)
    one, other = (build_network(spec, (TEXT,), (NEXT,), seed=3) for spec in (named, written))
    assert all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
    assert named.describe() == written.describe()
    assert "<svg" in str(written.draw(title="striped-mamba"))


@pytest.mark.parametrize("tied", [False, True])
def test_stated_parameters_are_those_of_the_model(tied: bool) -> None:
    spec = BackboneNetwork.of(SPACE, GENOME, tied=tied)
    cost = spec.cost(inputs=(TEXT,), outputs=(NEXT,))
    model = build_network(spec, (TEXT,), (NEXT,), seed=0)
    assert cost.parameters + cost.embedding_parameters == sum(one.numel() for one in model.parameters())
    between = spec.cost(length=TEXT.length)
    assert (between.parameters, between.embedding_parameters) == (cost.parameters, 0)
    assert between.flops == spec.cost(inputs=(TEXT,)).flops < cost.flops


def test_a_batch_is_answered_position_by_position_and_padding_says_nothing() -> None:
    model = small_backbone(SPACE, GENOME, TEXT.vocabulary)
    batch = small_batch((TEXT,), (NEXT,), padded=True)
    with torch.no_grad():
        answers, seen = model(batch), model.represent(batch)
        loss = model.loss(batch)
    assert answers["next"].shape == (4, 7, NEXT.size)
    torch.testing.assert_close(loss, F.cross_entropy(answers["next"].flatten(0, 1), batch["next/target"].flatten()))
    real = int(batch["text/mask"][1].sum())
    with torch.no_grad():
        alone = model.represent({"text": batch["text"][1:2, :real]}).pooled
    torch.testing.assert_close(seen.pooled[1:2], alone)


def test_positions_without_a_target_do_not_count() -> None:
    model = small_backbone(SPACE, GENOME, TEXT.vocabulary)
    batch = small_batch((TEXT,), (NEXT,))
    batch["next/target"][:, :3] = -1
    with torch.no_grad():
        expected = F.cross_entropy(model(batch)["next"][:, 3:].flatten(0, 1), batch["next/target"][:, 3:].flatten())
        torch.testing.assert_close(model.loss(batch), expected)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [((IMAGE,), (CLASS,)), ((TEXT,), (CLASS,)), ((TEXT, IMAGE), (NEXT,)), ((TEXT,), (NEXT, CLASS))],
)
def test_a_task_without_next_tokens_is_refused(inputs: tuple[object, ...], outputs: tuple[object, ...]) -> None:
    with pytest.raises(UsageError, match="predicts its next tokens"):
        BackboneNetwork().build(inputs, outputs)  # type: ignore[arg-type]


def test_a_text_that_is_no_genome_is_refused() -> None:
    with pytest.raises(UsageError, match=r"network\.backbone\.structure: segment 1, integer 2"):
        validate(NetworkEnvelope, {"network": {"kind": "backbone", "structure": {"genome": "99999"}}}, what="x")


def test_a_checkpoint_of_a_search_comes_back_as_a_network(tmp_path: Path) -> None:
    pool, model = FolderPool(tmp_path), small_backbone(SPACE, GENOME, 40, tied=True)
    read = {
        "context_length": 12,
        "model": {"vocabulary": 40, "tied": True},
        "space": SPACE.settings.model_dump(mode="json"),
    }

    def kept(**changes: object) -> str:
        return checkpoints.save(pool, model, genome=SPACE.to_json(GENOME), input_specification={**read, **changes})

    loaded, told = load_network(pool, kept())
    assert all(map(torch.equal, model.state_dict().values(), loaded.state_dict().values()))
    assert (loaded.input_specs, loaded.output_specs) == windows_of(40, 12)
    assert told == read
    for changes in ({"model": {"vocabulary": 1}}, {"model": {}}, {"space": {"depht": 3}}, {"context_length": "x"}):
        with pytest.raises(UnsafeFileError, match="not a checkpoint of a network"):
            load_network(pool, kept(**changes))
