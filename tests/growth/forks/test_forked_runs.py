"""Growth that forks at its events: who goes on, what it cost, and that a killed run is the same."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.edits import replay_log
from evodevo.growth.events import learning
from evodevo.growth.forks import running, sides
from evodevo.growth.growable import GROWABLES
from evodevo.growth.h_model.growing import GrowingHModel
from evodevo.growth.log import read_log
from evodevo.growth.procedures import forked
from evodevo.growth.procedures.settings import check_caps, check_grow
from evodevo.growth.recipes.growing import growth_of_new_runs
from evodevo.growth.report.forks import fork_table, fork_words
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import Strategist
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.growth.zoo.growing import GrowingZoo
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.networks.saved import load_network
from evodevo.networks.spec import NetworkSpec
from evodevo.search.problem import Outcome
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held.back import with_architecture_split
from evodevo.testing.small_networks import problem, settings, small_zoo
from evodevo.training.loop import TrainingResult, model_loss, train
from fixtures.evaluations import shares_of

torch.set_num_threads(1)

STRUCTURE = small_zoo(2)
ORDERS = 2
AVERAGE = {"refused": 0.0, "kept": 0.7}
GROWTH: dict[str, Any] = {
    "strategist": "random",
    "allow": ["spawn"],
    "forks": {"share": 0.5, "samples": 12, "least": 2, "orders": ORDERS},
    "events": {"count": 2, "first": 0.15, "last": 0.4, "warm": 0.1, "horizon": 0.1, "overhead": 10.0},
    "fitness": {"samples": 12},
    "replay": {"capacity": 24, "steps": 2},
}
FLOPS = 1e8


class Killed(BaseException):
    """As kill -9."""


class Spawning(Strategist):
    """Wants a module of the first family that may be spawned, once at every event."""

    name = "spawning"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        return Decision(legal=legal, action=(legal.targets("spawn") or legal.targets("noop"))[0])


@pytest.fixture(scope="module", autouse=True)
def _spawning() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            learning, "create", lambda name, **given: Spawning(given["settings"], actions=1, seed=given["seed"])
        )
        yield


def arm(network: NetworkSpec | None = None, **changes: Any) -> Trial:
    network = network or ModuleZooNetwork(structure=STRUCTURE)
    return Trial(name="forked", network=network, learning_rate=1e-2, procedure="grow", options=merge(GROWTH, changes))


def armed(kind: str) -> Trial:
    return arm(forks={"average": AVERAGE[kind]})


def grown(one: Trial, pool: Path | None = None, *, resume: str | None = None, report: Any = None) -> Outcome:
    given = problem({"training": {"budget": {"steps": None, "flops": FLOPS}, "checkpoint_every": 3}}, pool, arms=(one,))
    outcome = given.read(evaluate_network(given.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def timeless(outcome: Outcome) -> dict[str, Any]:
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


def weights_of(network: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def moments_of(snapshot: Any) -> dict[str, torch.Tensor]:
    return {
        f"{name} {key}": value.clone() for name, state in snapshot.optimizer.items() for key, value in state.items()
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@torch.no_grad()
def ruin(network: Any) -> None:
    """The first class is taken for certain, which some steps do not repair: harm by construction."""
    for name, parameter in network.heads.named_parameters():
        if name.endswith("bias"):
            parameter[0] += 20


class Seen:
    """What the sides of each fork did, and the segments between forks."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sides: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.trainer: Trainer | None = None
        train_side, train_segment = running.train_side, Trainer.train

        def trained(
            bench: Trainer, side: sides.Side, training: Any, batches: Any, steps: int, **how: Any
        ) -> TrainingResult:
            before = copy.deepcopy(side.zoo.network), copy.deepcopy(side.snapshot)
            read: list[Any] = []
            passed: list[dict[str, torch.Tensor]] = []

            def batch_at(step: int) -> Any:
                read.append(batches(step))
                passed.append({name: one.detach().clone() for name, one in side.zoo.network.named_parameters()})
                return read[-1]

            result = train_side(bench, side, training, batch_at, steps, **how)
            passed.append({name: one.detach().clone() for name, one in side.zoo.network.named_parameters()})
            self.sides.append(
                {
                    "before": before,
                    "end": weights_of(side.zoo.network),
                    "moments": moments_of(result.snapshot),
                    "result": result,
                    "read": read,
                    "passed": passed,
                    "averaged": side.averaged,
                    "average": how["average"],
                    "flops": side.flops,
                    "steps": steps,
                    "training": training,
                    "ripen": side.ripen,
                    "began": copy.deepcopy(side.zoo.births),
                    "births": copy.deepcopy(side.zoo.network.births),
                }
            )
            return result

        def segment(trainer: Trainer, network: Any, **how: Any) -> TrainingResult:
            self.trainer = trainer
            border = trainer._border
            self.segments.append(
                {
                    "begin": weights_of(network),
                    "moments": {} if border is None else moments_of(border[0]),
                    "step": 0 if border is None else border[0].cursor.step,
                }
            )
            return train_segment(trainer, network, **how)

        patch.setattr(running, "train_side", trained)
        patch.setattr(Trainer, "train", segment)


@contextmanager
def harmed(kind: str) -> Iterator[None]:
    """Ruins the side with the edit (``refused``) or the one without (``kept``)."""
    insert, spare = GrowingZoo.insert, forked.spare_of

    def inserted(zoo: Any, module: Any, **given: Any) -> None:
        insert(zoo, module, **given)
        ruin(zoo.network)

    def spared(zoo: Any, bench: Any) -> Any:
        made = spare(zoo, bench)
        ruin(made.network)
        return made

    with pytest.MonkeyPatch.context() as patch:
        if kind == "refused":
            patch.setattr(GrowingZoo, "insert", inserted)
        else:
            patch.setattr(forked, "spare_of", spared)
        yield


@pytest.fixture(scope="module", params=["refused", "kept"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pool(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(kind)


@pytest.fixture(scope="module")
def run(kind: str, pool: Path) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    with harmed(kind), pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(armed(kind), pool, report=messages.append)
    facts = outcome.extra["growth"]
    tried = [row for row in facts["forks"]["tried"] if row["spent"]]
    return {"outcome": outcome, "seen": seen, "messages": messages, "facts": facts, "first": tried[0], "tried": tried}


def test_harm_is_refused_and_its_absence_is_kept(kind: str, run: dict[str, Any]) -> None:
    for fork in run["tried"]:
        assert fork["kept"] == (kind == "kept")
        assert (fork["chose"]["lower"] > 0) == fork["kept"]
        assert (fork["published"]["gain"] > 0) == fork["kept"], "on samples that did not choose"
        assert bool(fork["reason"]) != fork["kept"]
    born = [edit["module"] for edit in run["facts"]["edits"] if edit["module"] is not None]
    assert set(born) | {one.id for one in STRUCTURE.modules} == set(run["facts"]["modules"])
    assert bool(born) == (kind == "kept")
    refused = [edit for edit in run["facts"]["edits"] if edit["module"] is None]
    assert all(edit["note"].startswith("refused: ") and edit["after"] is None for edit in refused)


def test_both_sides_have_equal_flops_and_equal_batches(run: dict[str, Any]) -> None:
    edited, without, *others = run["seen"].sides[: 2 + ORDERS]
    assert edited["flops"] > without["flops"] > 0, "the edit is dearer"
    assert edited["steps"] < without["steps"], "and makes fewer steps for it"
    limit = run["first"]["side_flops"]
    for side in (edited, without, *others):
        assert limit - side["flops"] < side["steps"] * side["flops"] <= limit
        assert side["result"].steps - side["before"][1].cursor.step == side["steps"] == len(side["read"])
    assert run["first"]["steps"] == [edited["steps"], without["steps"]]
    for one, other in zip(edited["read"], without["read"], strict=False):
        assert one.keys() == other.keys()
        assert all((one[name] == other[name]).all() for name in one)
    began = edited["before"][1].cursor.step
    trainer = run["seen"].trainer
    expected = run["seen"].trainer.task
    assert trainer is not None
    for side in others:
        assert not _equal(side["read"], without["read"]), "another order"
        assert _sorted(side["read"]) == _sorted(without["read"]), "of the same batches"
    assert expected is not None
    assert began == run["facts"]["timeline"][0]["step"]


def _equal(one: list[Any], other: list[Any]) -> bool:
    return all((a[name] == b[name]).all() for a, b in zip(one, other, strict=True) for name in a)


def _sorted(batches: list[Any]) -> list[tuple[bytes, ...]]:
    return sorted(tuple(batch[name].tobytes() for name in sorted(batch)) for batch in batches)


def test_the_winner_goes_on_to_the_bit_as_it_would_alone(run: dict[str, Any]) -> None:
    winner = run["seen"].sides[0 if run["first"]["kept"] else 1]
    end = winner["result"].steps
    following = next(one for one in run["seen"].segments if one["step"] == end)
    assert same(following["begin"], winner["end"])
    assert same(following["moments"], winner["moments"])
    network, snapshot = winner["before"]
    place = dict(network.births)
    begin, warm = snapshot.cursor.flops / FLOPS, GROWTH["events"]["warm"]
    at = run["facts"]["timeline"][0]["share"] - run["first"]["spent"] / FLOPS

    def loss_of(model: Any, batch: Any) -> torch.Tensor:
        if place:
            model.births = dict.fromkeys(place, (model.progress - at) / warm)
        return model_loss(model, batch)

    if place:
        network.births = dict.fromkeys(place, (begin - at) / warm)
    batches = iter(winner["read"])
    alone = train(
        network,
        winner["training"],
        batch_at=lambda step: next(batches),
        tokens_per_step=winner["training"].batch_size,
        seed=run["seen"].trainer.seed,
        loss_function=loss_of,
        uniform_loss=network.uniform_loss,
        resume=snapshot,
        changed=True,
        until=end,
        flops_per_step=winner["flops"],
    )
    assert alone.steps == end
    assert same(weights_of(network), winner["end"])


def test_a_side_is_judged_by_the_mean_of_its_last_weights(kind: str, run: dict[str, Any]) -> None:
    counts: list[int] = []
    for side in run["seen"].sides[: 2 + ORDERS]:
        assert side["average"] == AVERAGE[kind]
        if not AVERAGE[kind]:
            assert side["averaged"] is None
            continue
        last = side["passed"][-math.ceil(AVERAGE[kind] * side["steps"]) :]
        counts.append(len(last))
        for name, parameter in side["averaged"].named_parameters():
            naive = torch.stack([weights[name].double() for weights in last]).mean(0)
            assert torch.allclose(parameter.double(), naive, atol=1e-7)
    if AVERAGE[kind]:
        assert max(counts) > 1
        trainer = run["seen"].trainer
        task = with_architecture_split(trainer.task)
        choosing, _ = running.parts_of_split(task, running.ForkSamples.of(GrowthSettings().forks, 24))
        losses = [
            running.sample_losses(side["averaged"], task, choosing, batch_size=32, precision=trainer.precision).mean()
            for side in run["seen"].sides[: 2 + ORDERS]
        ]
        assert run["first"]["losses"] == pytest.approx(losses)


def test_everything_is_charged_and_no_more_than_the_share(run: dict[str, Any]) -> None:
    trainer, facts, first = run["seen"].trainer, run["facts"], run["first"]
    edited, without, *others = run["seen"].sides[: 2 + ORDERS]
    costs = [side["steps"] * side["flops"] for side in (edited, without, *others)]
    winner = costs[0 if first["kept"] else 1]
    assert first["winner_flops"] == winner
    judged = first["spent"] - (sum(costs) - winner)
    chose, published = first["chose"]["samples"], first["published"]["samples"]
    forwards = [side["flops"] / 3 / 8 for side in (edited, without)]  # a batch of 8, and a step is three passes
    stated = (chose + published) * sum(forwards) + ORDERS * chose * forwards[1]
    assert judged == pytest.approx(stated, rel=0.25), "stated when it is charged, counted here"
    assert trainer._spent["fork 1"] == first["spent"]
    used = sum(row["spent"] + row["winner_flops"] for row in run["tried"])
    assert facts["forks"]["share"] == pytest.approx(used / FLOPS)
    assert 0 < facts["forks"]["share"] <= GROWTH["forks"]["share"]
    assert len(run["tried"]) <= facts["forks"]["most"]
    stages = sum(stage.flops for stage in trainer._ended)
    assert trainer.flops == pytest.approx(stages + trainer.spent)
    assert run["outcome"].extra["training_flops"] == pytest.approx(trainer.flops)
    assert 0.9 * FLOPS < trainer.flops < 1.03 * FLOPS


def test_what_chose_did_not_judge(run: dict[str, Any]) -> None:
    task = with_architecture_split(run["seen"].trainer.task)
    samples = running.ForkSamples(12, 12)
    choosing, published = running.parts_of_split(task, samples)
    assert len(choosing) == len(published) == 12
    assert not set(choosing) & set(published)
    assert (
        run["first"]["chose"]["samples"]
        == run["first"]["published"]["samples"]
        == min(12, task.count("architecture") // 2)
    )


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_to_the_same_network(
    kind: str, run: dict[str, Any], pool: Path, tmp_path: Path
) -> None:
    kept = [message for message in run["messages"] if message.get("checkpoint")]
    outcome = run["outcome"]
    for number, message in enumerate(kept[:: max(1, len(kept) // 4)]):
        own = FolderPool(tmp_path / str(number))
        for digest in (message["checkpoint"], *message["blobs"]):
            own.put_bytes(FolderPool(pool).get(digest))
        told: list[dict[str, Any]] = []
        with harmed(kind):
            resumed = grown(armed(kind), tmp_path / str(number), resume=message["checkpoint"], report=told.append)
        assert not [one for one in told if "restarted" in one]
        assert timeless(resumed) == timeless(outcome)
        assert resumed.blobs == outcome.blobs
        assert resumed.scores == outcome.scores


@pytest.mark.slow
def test_killed_in_a_fork_it_is_repeated_to_the_same_network(kind: str, run: dict[str, Any], tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = []
    train_side, calls = running.train_side, []

    def killed(*given: Any, **more: Any) -> TrainingResult:
        calls.append(1)
        if len(calls) == 3:  # both sides are trained, nothing is judged
            raise Killed
        return train_side(*given, **more)

    with harmed(kind):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "train_side", killed)
            with pytest.raises(Killed):
                grown(armed(kind), tmp_path, report=messages.append)
        kept = [message["checkpoint"] for message in messages if message.get("checkpoint")]
        resumed = grown(armed(kind), tmp_path, resume=kept[-1])
    assert timeless(resumed) == timeless(run["outcome"])
    assert resumed.blobs == run["outcome"].blobs


def test_the_log_leads_to_the_kept_network(run: dict[str, Any], pool: Path) -> None:
    outcome, blobs = run["outcome"], FolderPool(pool)
    log = read_log(blobs.get(outcome.blobs["edits"]))
    replayed = replay_log(log.start, log.edits, lambda digest: blobs.get(outcome.blobs[f"parents/{digest}"]), log.birth)
    network, _ = load_network(blobs, outcome.blobs["weights"])
    assert replayed.modules == GROWABLES.get("module_zoo").of(network.structure).modules


@pytest.mark.slow
def test_the_same_seed_is_the_same_run(kind: str, run: dict[str, Any], tmp_path: Path) -> None:
    with harmed(kind):
        again = grown(armed(kind), tmp_path)
    assert timeless(again) == timeless(run["outcome"])
    assert again.blobs == run["outcome"].blobs


def test_two_trainings_in_one_order_differ_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "reordered", lambda batches, *rest: batches)
    facts = grown(arm()).extra["growth"]
    fork = next(row for row in facts["forks"]["tried"] if row["spent"])
    assert fork["losses"][1] == fork["losses"][2] == fork["losses"][3]
    assert fork["noise"] == fork["scatter"] == 0.0


@pytest.mark.slow
def test_no_fork_below_the_stated_budget_and_growth_is_as_without(tmp_path: Path) -> None:
    without = grown(arm(forks={"share": 0.0}))
    assert "forks" not in without.extra["growth"]
    outcome = grown(arm(forks={"least": 1000}))
    forks = outcome.extra["growth"].pop("forks")
    assert (forks["most"], forks["tried"]) == (0, [])
    assert "no room for a fork of 1000 steps a side" in forks["instead"]
    assert timeless(outcome) == timeless(without)


@pytest.mark.slow
def test_nothing_is_edited_without_room_for_a_fork_that_is_required() -> None:
    outcome = grown(arm(forks={"least": 1000, "required": True}))
    growth = outcome.extra["growth"]
    without = grown(arm(events={"count": 0}, forks={"share": 0.0}))
    assert not growth["forks"]["edits"]
    assert (growth["edits"], growth["timeline"]) == ([], [])
    assert outcome.extra["validation"] == without.extra["validation"], "the network that does not grow"
    assert fork_words(growth["forks"])[0].endswith("Nothing is edited.")


def test_an_edit_without_a_fork_is_not_made(run: dict[str, Any]) -> None:
    left = [row for row in run["facts"]["forks"]["tried"] if not row["spent"]]
    assert len(run["tried"]) == run["facts"]["forks"]["most"] or not left
    assert all(row["reason"] in (running.NONE_LEFT, running.NO_ROOM) and not row["kept"] for row in left)


@pytest.mark.slow
def test_forks_after_a_race_are_charged_to_what_it_leaves_and_resumed(tmp_path: Path) -> None:
    one = arm(race={"share": 0.3, "samples": 12, "least": 2}, forks={"orders": 1})
    messages: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(one, tmp_path / "whole", report=messages.append)
    facts, trainer = outcome.extra["growth"], seen.trainer
    assert trainer is not None
    rest = (1 - facts["race"]["share"]) * FLOPS
    forks = facts["forks"]
    assert facts["race"]["tried"]
    assert [row for row in forks["tried"] if row["chose"] is not None], forks
    assert forks["allowed"] == pytest.approx(GROWTH["forks"]["share"] * rest)
    assert forks["share"] <= GROWTH["forks"]["share"]
    assert seen.sides[0]["before"][1].cursor.flops < rest
    assert trainer.flops < 1.03 * FLOPS
    kept = [message for message in messages if message.get("checkpoint")][-1]
    resumed = grown(one, tmp_path / "whole", resume=kept["checkpoint"])
    assert timeless(resumed) == timeless(outcome)
    assert resumed.blobs == outcome.blobs


def test_an_h_model_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    insert = GrowingHModel.insert
    calls = []
    monkeypatch.setattr(GrowingHModel, "insert", lambda *given, **more: calls.append(1) or insert(*given, **more))
    hidden = tuple(GenotypeLayer(module=one) for one in start_zoo(16)[:2])
    structure = HModelStructure(stream="paper", width=16, iterations=2, input_blocks=0, output_blocks=0, hidden=hidden)
    outcome = grown(arm(HModelNetwork(structure=structure), forks={"least": 1, "orders": 1, "average": 0.5}))
    forks = outcome.extra["growth"]["forks"]
    assert calls
    assert [row for row in forks["tried"] if row["chose"] is not None], forks
    assert forks["share"] <= GROWTH["forks"]["share"]


def test_followed_sides_go_on_from_their_ends_and_decide_nothing(kind: str) -> None:
    follow = 2
    with harmed(kind), pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(arm(forks={"follow": follow, "share": 0.9}))
    forks = outcome.extra["growth"]["forks"]
    first = next(row for row in forks["tried"] if row["spent"])
    sides, later = seen.sides[:2], seen.sides[2 + ORDERS : 4 + ORDERS]
    for side, copied in zip(sides, later, strict=True):
        assert same(weights_of(copied["before"][0]), side["end"])
        assert same(moments_of(copied["before"][1]), side["moments"])
        assert copied["steps"] == follow * side["steps"]
        assert all(copied["births"].get(name, 1.0) > factor for name, factor in side["births"].items())
        assert copied["result"].steps == side["result"].steps + copied["steps"]
        assert not same(copied["end"], side["end"])
    followed, published = first["followed"], first["published"]
    assert followed["samples"] == published["samples"]
    assert followed["gain"] != published["gain"]
    assert (followed["gain"] > published["gain"]) != first["kept"], "harm by construction wears off"
    winner = sides[0 if first["kept"] else 1]
    following = next(one for one in seen.segments if one["step"] == winner["result"].steps)
    assert same(following["begin"], winner["end"]), "copies were trained on, not the winner"
    costs = [side["steps"] * side["flops"] for side in (*sides, *seen.sides[2 : 2 + ORDERS], *later)]
    assert first["spent"] + first["winner_flops"] > sum(costs)
    assert 0 < forks["share"] <= 0.9
    assert 0.9 * FLOPS < outcome.extra["training_flops"] < 1.03 * FLOPS
    table = fork_table(forks)
    assert table is not None
    shown = dict(zip(table.columns, next(row for row in table.rows if row[0] == str(first["event"])), strict=True))
    assert shown["gain later"].startswith(f"{followed['gain']:+.4f}")


def test_paired_sides_see_the_same_batches_in_each_order(kind: str) -> None:
    with harmed(kind), pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        outcome = grown(arm(forks={"paired": True, "share": 0.8}))
    forks = outcome.extra["growth"]["forks"]
    first = next(row for row in forks["tried"] if row["spent"])
    trained = seen.sides[: 2 * (1 + ORDERS)]
    orders = list(zip(trained[::2], trained[1::2], strict=True))
    for edited, without in orders:
        assert edited["flops"] > without["flops"]
        assert [edited["steps"], without["steps"]] == first["steps"]
        assert _equal(edited["read"], without["read"][: len(edited["read"])])
        assert same(moments_of(edited["before"][1]), moments_of(without["before"][1]))
        assert edited["births"] == orders[0][0]["births"], "newborns ripen in each copy"
        assert all(0 < factor < 1 for factor in edited["births"].values())
    assert orders[0][0]["births"]
    assert not _equal(orders[0][1]["read"], orders[1][1]["read"])
    assert _sorted(orders[0][1]["read"]) == _sorted(orders[1][1]["read"])
    assert len(first["pairs"]) == 1 + ORDERS
    assert first["chose"]["gain"] == pytest.approx(sum(first["pairs"]) / len(first["pairs"]))
    assert first["losses"][1] - first["losses"][0] == pytest.approx(first["pairs"][0])
    assert first["kept"] == (kind == "kept")
    costs = [side["steps"] * side["flops"] for side in trained]
    assert first["spent"] + first["winner_flops"] > sum(costs)
    assert forks["share"] <= 0.8
    assert 0.9 * FLOPS < outcome.extra["training_flops"] < 1.03 * FLOPS


def test_the_table_of_forks_has_their_numbers(run: dict[str, Any]) -> None:
    forks = run["facts"]["forks"]
    growth: Any = SimpleNamespace(forks=forks)
    table = fork_table(growth.forks)
    assert table is not None
    assert len(table.rows) == len(forks["tried"])
    for row, fork in zip(table.rows, forks["tried"], strict=True):
        shown = dict(zip(table.columns, row, strict=True))
        assert len(row) == len(table.columns)
        if fork["chose"] is not None:
            assert float(shown["gain in nats"]) == pytest.approx(fork["chose"]["gain"], abs=1e-4)
            assert shown["published gain"].startswith(f"{fork['published']['gain']:+.4f}")
        assert (shown["decision"] == "kept") == fork["kept"]
    (sentence,) = fork_words(growth.forks)
    assert sentence.startswith(f"{sum(row['kept'] for row in run['tried'])} of {len(run['tried'])} forks kept")
    assert fork_words(None) == []
    none = {**forks, "most": 0, "instead": "there is no room."}
    assert fork_words(none) == ["No forks: there is no room. Edits are made without."]


def test_the_run_says_at_its_start_how_many_forks_there_are(run: dict[str, Any]) -> None:
    told = [one["growth"]["told"] for one in run["messages"] if "told" in one.get("growth", {})]
    assert told == [
        f"{run['facts']['forks']['most']} forks at most, of about {run['facts']['forks']['steps']} steps a side."
    ]
    events = [one["event"]["name"] for one in run["messages"] if "event" in one]
    assert events[0] == "forks"
    shares_of(run["messages"], end=0.9)


def test_forks_are_off_and_leave_stored_settings_as_they_were() -> None:
    assert GrowthSettings().forks.share == 0
    assert "forks" not in GrowthSettings().model_dump(mode="json")
    assert growth_of_new_runs()["forks"] == {"paired": True, "average": 0.5}, "and off all the same"


def test_what_cannot_fork_is_refused_before_anything_is_trained() -> None:
    task = problem().open_task({})
    for budget in ({"steps": 60}, {"steps": None, "flops": 1e8, "seconds": 60}):
        with pytest.raises(UsageError, match="forks are charged in FLOPs or in seconds"):
            check_caps(settings({"training": {"budget": budget}}), arm(), task)
    check_caps(settings({"training": {"budget": {"steps": None, "flops": 1e8}}}), arm(), task)
    check_grow(settings({"training": {"budget": {"steps": 60}}}), arm())  # as a forecast asks for a budget in FLOPs
    check_grow(settings({"training": {"budget": {"steps": None, "flops": 1e8}}}), arm())
    with pytest.raises(UsageError, match="did you mean 'least'"):
        check_grow(settings({"training": {"budget": {"steps": None, "flops": 1e8}}}), arm(forks={"lest": 3}))
