"""A race before a growth: the winner goes on with its weights, everything counts once, and a killed run is the same."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evodevo.errors import UsageError
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.remarks import remarks
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.log import read_log
from evodevo.growth.procedures.settings import check_grow
from evodevo.growth.recipes.growing import NOTHING_HAPPENS, growth_of_new_runs
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.training.starting_race import start_of
from evodevo.h_model.network import HModelNetwork
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.race import ModuleRace
from evodevo.networks.saved import load_network
from evodevo.search.problem import Outcome
from evodevo.settings import merge, validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import STRUCTURE as H_MODEL
from evodevo.testing.small_networks import problem, settings, small_zoo
from evodevo.training.precision import decide
from fixtures.evaluations import lines_of, shares_of

torch.set_num_threads(1)

STRUCTURE = small_zoo(3)
IDS = [module.id for module in STRUCTURE.modules]
GROWTH: dict[str, Any] = {
    "strategist": "random",
    "allow": ["grow", "spawn"],
    "race": {"share": 0.4, "samples": 20, "least": 2},
    "events": {"count": 2, "first": 0.2, "last": 0.6, "warm": 0.2, "horizon": 0.2, "overhead": 10.0},
    "fitness": {"samples": 24},
    "replay": {"capacity": 24, "steps": 2},
}
STEPS = 60
FLOPS = 8e7


def arm(**changes: Any) -> Trial:
    network = ModuleZooNetwork(structure=STRUCTURE)
    return Trial(name="raced", network=network, learning_rate=1e-2, procedure="grow", options=merge(GROWTH, changes))


def grown(
    one: Trial, budget: dict[str, float], pool: Path | None = None, *, resume: str | None = None, report: Any = None
) -> Outcome:
    given = problem({"training": {"budget": {"steps": None, **budget}, "checkpoint_every": 3}}, pool, arms=(one,))
    outcome = given.read(evaluate_network(given.payload(one, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


class Stages:
    """The segments of a training: who was trained, with which weights, on which batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trainer: Trainer | None = None
        self.all: list[dict[str, Any]] = []
        train = Trainer.train

        def told(trainer: Trainer, network: Any, **how: Any) -> Any:
            self.trainer = trainer
            seen = {"ids": [module.id for module in network.structure.modules], "begin": weights_of(network)}
            first = how["batch_at"](0)
            result = train(trainer, network, **how)
            self.all.append({**seen, "end": weights_of(network), "batch": first, "state": result.state, **how})
            return result

        monkeypatch.setattr(Trainer, "train", told)


def weights_of(network: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("raced")


@pytest.fixture(scope="module")
def seen(pool: Path) -> dict[str, Any]:
    """One growth after a race, under a budget in FLOPs: its outcome, stages and checkpoints."""
    messages: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        stages = Stages(patch)
        outcome = grown(arm(), {"flops": FLOPS}, pool, report=messages.append)
    return {"outcome": outcome, "stages": stages, "messages": messages}


@pytest.mark.slow
def test_the_winner_grows_on_from_its_weights(seen: dict[str, Any], pool: Path) -> None:
    outcome, stages = seen["outcome"], seen["stages"]
    facts = outcome.extra["growth"]
    race, won = facts["race"], " + ".join(facts["race"]["chosen"])
    assert race["heats"][0]["arms"] == IDS
    final = {name: told["loss"] for heat in race["heats"] for name, told in heat["rungs"][-1].items()}
    assert won == min(final, key=final.__getitem__)
    assert [one["id"] for one in facts["start"]] == race["chosen"]
    log = read_log(FolderPool(pool).get(outcome.blobs["edits"]))
    assert [module.id for module in log.start] == race["chosen"]
    place = next(place for place, stage in enumerate(stages.all) if stage["state"] == "paused")
    last = [stage for stage in stages.all[:place] if stage["ids"] == race["chosen"]][-1]
    growing = stages.all[place]
    assert growing["ids"] == race["chosen"]
    assert growing["begin"].keys() == last["end"].keys()
    assert all(torch.equal(growing["begin"][name], value) for name, value in last["end"].items())
    told = next(heat["rungs"][-1][won] for heat in race["heats"] if won in heat["rungs"][-1])
    expected = growing["task"].batch("train", stages.trainer.seed, told["steps"], 8)
    assert all((growing["batch"][name] == value).all() for name, value in expected.items()), "goes on where it was"
    network, _ = load_network(FolderPool(pool), outcome.blobs["weights"])
    assert set(race["chosen"]) <= {module.id for module in network.structure.modules}, "nobody was pruned here"


def test_all_flops_count_once(seen: dict[str, Any]) -> None:
    outcome, trainer = seen["outcome"], seen["stages"].trainer
    facts = outcome.extra["growth"]
    race, share = facts["race"], GROWTH["race"]["share"]
    assert 0.5 * share < race["share"] < 1.05 * share, "counted, against stated when planned"
    assert 0.85 * FLOPS < trainer.flops <= FLOPS
    assert outcome.extra["training_flops"] == pytest.approx(trainer.flops)
    first, second = facts["timeline"]
    assert first["step"] > race["steps"], "steps are those of the whole training"
    assert (first["share"], second["share"]) == pytest.approx((0.2, 0.6), abs=0.1), "of what the race leaves"
    grown_flops = trainer.flops - race["share"] * FLOPS
    spent = facts["overhead"]["flops_share"]
    judged = sum(flops for name, flops in trainer._spent.items() if name.startswith("judged"))
    assert judged > 0
    assert spent == pytest.approx((trainer.spent - judged) / (grown_flops - trainer.spent + judged))


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_to_the_same_network(seen: dict[str, Any], pool: Path, tmp_path: Path) -> None:
    kept = [message for message in seen["messages"] if message.get("checkpoint")]
    outcome = seen["outcome"]
    for number, message in enumerate(kept[:: max(1, len(kept) // 4)]):
        own = FolderPool(tmp_path / str(number))
        for digest in (message["checkpoint"], *message["blobs"]):
            own.put_bytes(FolderPool(pool).get(digest))
        told: list[dict[str, Any]] = []
        resumed = grown(
            arm(), {"flops": FLOPS}, tmp_path / str(number), resume=message["checkpoint"], report=told.append
        )
        assert not [one for one in told if "restarted" in one]
        assert timeless(resumed) == timeless(outcome)
        assert resumed.blobs == outcome.blobs
        assert resumed.scores == outcome.scores


def test_a_race_tells_who_leads_and_who_won_and_the_bar_is_that_of_the_whole_budget(
    seen: dict[str, Any], pool: Path
) -> None:
    messages, race = seen["messages"], seen["outcome"].extra["growth"]["race"]
    shares, lines = shares_of(messages), lines_of(messages)
    first = next(place for place, message in enumerate(messages) if "growth" in message)
    before = [message["share"] for message in messages[:first] if "share" in message]
    assert before[-1] < race["share"] / 4, "the first line comes early in the race"
    rungs = [line for line in lines if re.match(r"race, (heat 2, )?rung \d of \d: .+ leads \d", line)]
    assert len(rungs) == sum(len(heat["rungs"]) for heat in race["heats"])
    told = [told for heat in race["heats"] for told in heat["rungs"]]
    for line, rung in zip(rungs, told, strict=True):
        leader = min(rung, key=lambda name: rung[name]["loss"])
        assert f": {leader} leads {len(rung)} network" in line
        assert f"loss {rung[leader]['loss']:.3f}" in line
    (won,) = [line for line in lines if line.startswith("It begins with")]
    assert won.startswith(
        f"It begins with {' + '.join(race['chosen'])}, the winner of a race of {race['tried']} networks"
    )
    ended = [message["share"] for message in messages[: messages.index(told_as(messages, won))] if "share" in message]
    assert ended[-1] == pytest.approx(race["share"], abs=0.1)
    assert shares[len(ended)] >= ended[-1], "growth goes on where the race ended"
    # A resume tells no rung twice, and its bar goes on where the checkpoint was.
    kept = [place for place, message in enumerate(messages) if message.get("checkpoint")]
    for place in (kept[0], kept[len(kept) // 3]):
        again: list[dict[str, Any]] = []
        grown(arm(), {"flops": FLOPS}, pool, resume=messages[place]["checkpoint"], report=again.append)
        earlier = [message["share"] for message in messages[:place] if "share" in message]
        assert shares_of(again, begin=earlier[-1]) == pytest.approx(shares[len(earlier) :])
        assert won in lines_of(again), "an event: who records it tells it once"
        later = lines[len(lines_of(messages[:place])) :]
        assert [line for line in lines_of(again) if line != won] == [line for line in later if line != won]


def told_as(messages: list[dict[str, Any]], line: str) -> dict[str, Any]:
    return next(message for message in messages if message.get("growth", {}).get("told") == line)


def test_no_race_is_told_too() -> None:
    messages: list[dict[str, Any]] = []
    outcome = grown(arm(race={"least": 1000}), {"steps": 12}, report=messages.append)
    assert lines_of(messages) == [f"It begins with all modules: {outcome.extra['growth']['race']['instead']}"]
    shares_of(messages)


def test_a_race_of_networks_that_diverge_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModuleRace, "_judged", lambda self, name, arm, network: None)
    messages: list[dict[str, Any]] = []
    grown(arm(), {"flops": FLOPS}, report=messages.append)
    first, won = lines_of(messages)[:2]
    assert re.fullmatch(r"race, rung 1 of \d: none of 3 networks could be trained", first)
    assert "; no network of a race of 3 networks" in won


def timeless(outcome: Outcome) -> dict[str, Any]:
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


def test_where_there_is_no_room_all_modules_grow_and_it_is_said() -> None:
    without = grown(arm(race={"share": 0.0}), {"steps": 12})
    outcome = grown(arm(race={"least": 1000}), {"steps": 12})
    race = outcome.extra["growth"]["race"]
    assert race["tried"] == 0
    assert race["chosen"] == IDS
    assert "no room for 3 modules, each alone, with rungs of at least 1000 steps" in race["instead"]
    assert any("begins with all modules" in remark for remark in remarks([outcome.extra]))
    assert without.extra["growth"]["race"] is None
    for one in (without, outcome):
        one.extra["growth"]["race"] = None
    assert timeless(outcome) == timeless(without), "a race that was not run changes nothing"
    lone = arm().network.structure.model_copy(update={"disabled": tuple(IDS[1:])})
    alone = grown(arm(allow=["grow"]).model_copy(update={"network": ModuleZooNetwork(structure=lone)}), {"steps": 12})
    assert "two live modules" in alone.extra["growth"]["race"]["instead"]


@pytest.mark.parametrize("race", [{"least": 1000}, {"share": 0.05}])
def test_where_there_is_no_room_one_module_may_begin_and_it_is_said(race: dict[str, Any]) -> None:
    """The training is that of a zoo of this module alone, to the bit."""
    lone = STRUCTURE.model_copy(update={"modules": (STRUCTURE.modules[1],)})
    assert lone.modules[0].genotype.archetype == "mlp"
    outcome = grown(arm(race={**race, "otherwise": "mlp"}, prune={"least": 3}), {"steps": 12})
    alone = arm(race={"share": 0.0}, prune={"least": 1}).model_copy(
        update={"network": ModuleZooNetwork(structure=lone)}
    )
    wanted = grown(alone, {"steps": 12})
    facts = outcome.extra["growth"]
    assert (facts["race"]["tried"], facts["race"]["chosen"], facts["race"]["otherwise"]) == (0, [IDS[1]], "mlp")
    assert any(f"it begins with {IDS[1]} alone: " in remark for remark in remarks([outcome.extra]))
    facts["race"] = None
    assert timeless(outcome) == timeless(wanted)
    assert outcome.scores == wanted.scores


@pytest.mark.parametrize("partial", [True, False])
def test_dear_modules_are_left_out_only_where_that_is_wanted_and_as_few_stay_as_won(partial: bool) -> None:
    given = settings({"training": {"budget": {"steps": None, "flops": 5e7}}})
    task = problem({"training": given.training.model_dump(mode="json")}).open_task({})
    one = arm(prune={"least": 3}, race={"partial": partial, "least": 4})
    bench = Trainer(one, given, task, 5, decide("cpu"), None, lambda message: None, None, Path())
    start = start_of(bench, validate(GrowthSettings, dict(one.options), what="options"))
    assert start.race is not None
    if partial:
        assert start.race["heats"][0]["left_out"]
        assert start.settings.prune.least == len(start.race["chosen"]) < 3
        assert start.training.budget.flops == 5e7 - start.flops < 5e7
    else:
        assert start.race["chosen"] == IDS
        assert "no room for 3 modules" in start.race["instead"]
        assert (start.flops, start.settings.prune.least, bench.steps) == (0, 3, 0)


def test_nothing_races_unasked_and_the_fixed_arm_never_does() -> None:
    assert GrowthSettings().race.share == 0
    assert "race" not in GrowthSettings().model_dump(mode="json"), "stored runs are as they were"
    assert "share" not in growth_of_new_runs()["race"]
    assert growth_of_new_runs()["race"]["otherwise"] == "mlp"
    asked = validate(GrowthSettings, dict(merge({"race": {"share": 0.15}}, NOTHING_HAPPENS)), what="options")
    bench: Any = SimpleNamespace(build=lambda: "all modules", training="the whole budget")
    start = start_of(bench, asked)
    assert (start.network, start.training, start.race) == ("all modules", "the whole budget", None)


def test_growth_goes_on_from_a_network_without_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is born of a module without a weight may have none either, and has no learning rate then."""
    monkeypatch.setattr(ModuleRace, "_judged", lambda self, name, arm, network: float(arm.ids != ("identity",)))
    one = arm(race={"identity": True, "singles": 1.0, "judge": "trend"}, allow=["grow"], events={"count": 5})
    facts = grown(one, {"flops": FLOPS}).extra["growth"]
    assert facts["race"]["chosen"] == ["identity"]
    assert len(facts["modules"]) > 1


def test_what_cannot_race_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(UsageError, match="do not race"):
        check_grow(settings(), arm().model_copy(update={"network": HModelNetwork(structure=H_MODEL)}))
    with pytest.raises(UsageError, match="did you mean 'least'"):
        check_grow(settings(), arm(race={"lest": 3}))
    few = settings({"training": {"budget": {"steps": 24}}})
    check_grow(few, arm(race={"share": 0.0}, events={"warm": 0.05}))
    with pytest.raises(UsageError, match="after the race are too few"):
        check_grow(few, arm(events={"warm": 0.05}))
