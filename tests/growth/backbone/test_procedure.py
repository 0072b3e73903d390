"""The procedure ``grow_backbone``: one budget, the planned network, and the same one after an interruption."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.backbone.network import BackboneNetwork
from evodevo.errors import UsageError
from evodevo.experiments.trainer import Trainer
from evodevo.growth.backbone.arms import GrowingBackbone
from evodevo.growth.backbone.insert import InsertEdit
from evodevo.growth.backbone.lengthen import LengthenEdit
from evodevo.growth.backbone.procedure import LOOKED_AT
from evodevo.growth.backbone.stack import StackEdit
from evodevo.growth.backbone.widen import WidenEdit
from evodevo.h_model.network import HModelNetwork
from evodevo.networks.saved import load_network
from evodevo.runs.resolve import resolve
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.language import windows_of
from growth.backbone.small_growths import BATCH, LENGTH, evaluate, problem, small_run, trial

FLOPS = 6e8
START = GrowingBackbone(
    starts=(),
    depth=2,
    width=16,
    head_size=8,
    classes=("SA-1", "GMemless", "Rec-1"),
    tokens=8,
    edits=(
        StackEdit(at=0.2),
        WidenEdit(at=0.4),
        LengthenEdit(at=0.4, tokens=LENGTH),
        InsertEdit(at=0.6, liv="Rec-1", place=2),
    ),
)


def test_all_is_one_budget_and_the_network_is_the_planned_one(text: Path, tmp_path: Path) -> None:
    of = problem(text, FLOPS, tmp_path, arms=(trial(START),))
    outcome = evaluate(of, trial(START))
    stages = outcome.extra["stages"]
    planned = START.structures()
    assert [stage["livs"] for stage in stages] == [2, 4, 4, 5]
    assert [stage["width"] for stage in stages] == [16, 16, 32, 32]
    assert [stage["window"] for stage in stages] == [8, 8, 16, 16]
    assert [stage["at"] for stage in stages] == [0.0, 0.2, 0.4, 0.6]
    assert [len(stage["edits"]) for stage in stages] == [0, 1, 2, 1]
    assert stages[1]["loss_after"] != pytest.approx(stages[1]["loss_before"], rel=1e-3), "a stack answers otherwise"
    for stage in stages[2:]:
        assert stage["loss_after"] == pytest.approx(stage["loss_before"], rel=1e-4)
    costs = [stage["flops"] for stage in stages]
    assert costs == sorted(costs)
    network, _ = load_network(FolderPool(tmp_path), outcome.blobs["weights"])
    assert network.structure == planned[-1]
    assert sum(parameter.numel() for parameter in network.parameters()) == stages[-1]["parameters"]
    # Steps of each segment at its cost, and the measurements, are what was spent; the last step may go over.
    steps = [*(stage["step"] for stage in stages[1:]), outcome.extra["steps"]]
    trained = sum(cost * (end - stage["step"]) for cost, stage, end in zip(costs, stages, steps, strict=True))
    spent = outcome.extra["training_flops"]
    ends = {"inputs": network.input_specs, "outputs": network.output_specs}
    looks = [BackboneNetwork(structure=planned[after]).cost(**ends).flops for after in (1, 3, 4)]
    assert spent - trained == pytest.approx(2 * LOOKED_AT * sum(looks)), "measurements around edits are charged"
    assert abs(spent - FLOPS) < 1.5 * costs[-1]
    assert stages[1]["tokens"] == stages[1]["step"] * BATCH * LENGTH


@pytest.mark.slow
def test_an_interrupted_training_ends_as_one_that_was_not(text: Path, tmp_path: Path) -> None:
    """Interrupted at the first checkpoint, and at the last one of each stage."""
    of = problem(text, FLOPS, tmp_path, arms=(trial(START),), checkpoint_every=3)
    told: list[dict[str, Any]] = []
    whole = evaluate(of, trial(START), report=told.append)
    checkpoints = [message["checkpoint"] for message in told if "checkpoint" in message]
    begins = [stage["step"] for stage in whole.extra["stages"]]
    steps = [3 * number for number in range(1, len(checkpoints) + 1)]
    last = {bisect_left(begins, step): checkpoint for step, checkpoint in zip(steps, checkpoints, strict=True)}
    assert list(last) == [1, 2, 3, 4]
    for checkpoint in (checkpoints[0], *last.values()):
        resumed = evaluate(of, trial(START), resume=checkpoint)
        assert resumed.extra["stages"] == whole.extra["stages"]
        assert resumed.blobs["weights"] == whole.blobs["weights"]
        assert resumed.scores == whole.scores
        assert resumed.extra["training_flops"] == whole.extra["training_flops"]


def test_windows_are_cut_and_no_token_is_lost(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[dict[str, Any]] = []
    train = Trainer.train

    def told(trainer: Trainer, network: Any, **how: Any) -> Any:
        batches.append({"cut": how["batch_at"](3), "whole": trainer.task.batch("train", trainer.seed, 3, BATCH)})
        return train(trainer, network, **how)

    monkeypatch.setattr(Trainer, "train", told)
    evaluate(problem(text, FLOPS, arms=(trial(START),)), trial(START))
    assert [seen["cut"]["text"].shape for seen in batches] == [(8, 8), (8, 8), (4, 16), (4, 16)]
    for seen in batches:
        for name, values in seen["cut"].items():
            assert torch.equal(torch.as_tensor(values).flatten(), torch.as_tensor(seen["whole"][name]).flatten())


def test_longer_windows_alone_cost_more_and_all_moments_go_on(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[set[str]] = []
    carry = Trainer.carry
    monkeypatch.setattr(
        Trainer, "carry", lambda trainer, origins: (moved.append(set(origins)), carry(trainer, origins))[1]
    )
    longer = START.model_copy(update={"edits": (LengthenEdit(at=0.5, tokens=LENGTH),)})
    outcome = evaluate(problem(text, FLOPS, arms=(trial(longer),)), trial(longer))
    short, long = outcome.extra["stages"]
    assert short["parameters"] == long["parameters"]
    assert short["flops"] < long["flops"], "attention reads more"
    (names,) = moved
    start = longer.structures()[0]
    built = BackboneNetwork(structure=start).build(*windows_of(257, LENGTH))
    assert names == set(dict(built.named_parameters()))


def test_without_edits_it_is_the_plain_training(text: Path, tmp_path: Path) -> None:
    still = START.model_copy(update={"edits": (), "tokens": None})
    grown = evaluate(problem(text, FLOPS, tmp_path, arms=(trial(still),)), trial(still))
    plain = trial(still).model_copy(update={"procedure": "train", "options": {}})
    assert evaluate(problem(text, FLOPS, tmp_path, arms=(plain,)), plain).scores == grown.scores


def test_what_does_not_fit_is_refused_before_anything_is_trained(text: Path) -> None:
    of = trial(START.model_copy(update={"tokens": 5}))
    with pytest.raises(UsageError, match="windows of 16 tokens cannot be cut into windows of 5"):
        problem(text, FLOPS, arms=(of,))
    with pytest.raises(UsageError, match="LIV class"):
        problem(
            text,
            FLOPS,
            arms=(trial(START).model_copy(update={"options": {"edits": [{"kind": "insert", "at": 0.5, "liv": "x"}]}}),),
        )
    with pytest.raises(UsageError, match="grows backbones"):
        problem(text, FLOPS, arms=(trial(START).model_copy(update={"network": HModelNetwork()}),))


def test_a_wrong_plan_of_the_user_s_is_a_sentence() -> None:
    for part, match in (
        ({"edits": [{"kind": "stack", "at": 0.5}, {"kind": "widen", "at": 0.2}]}, "in the order of their shares"),
        ({"edits": [{"kind": "melt", "at": 0.5}]}, "melt"),
        ({"width": 24}, "head size 16 does not fit width 24"),
    ):
        with pytest.raises(UsageError, match=match):
            resolve("backbone.growing", size="quick", driver="grow", overrides={"backbone": part})


def test_a_run_shows_what_grew_and_what_that_saved(novel: Path, tmp_path: Path) -> None:
    run = small_run(START, novel, tmp_path / "store", 3e8)
    with run.archive:
        grown, fixed = run.individuals()
        network = grown.load()
        assert isinstance(fixed.genome.network, BackboneNetwork)
        assert network.structure == fixed.genome.network.structure
        from evodevo.experiments.procedures import PROCEDURES

        assert PROCEDURES.get("grow_backbone").network(grown) == fixed.genome.network
        words = PROCEDURES.get("grow_backbone").words(grown)
        assert len(words) == 4
        assert words[0].startswith("Begins with 2 LIVs of width 16")
        assert "At 40% of the budget twice the width, windows of 16 tokens: 4 LIVs of width 32" in words[2]
        page = run.report(tmp_path / "page.html").read_text()
        assert "What grew" in page or "what grew" in page
        assert "until the loss of fixed" in page
