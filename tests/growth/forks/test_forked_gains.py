"""What forks measure is remembered and learnt from, and a replacement is measured as every edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.trials import Trial
from evodevo.growth.edits import replay_log
from evodevo.growth.growable import GROWABLES
from evodevo.growth.log import read_log
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.networks.saved import load_network
from evodevo.search.problem import Outcome
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import problem, small_zoo

torch.set_num_threads(1)

STRUCTURE = small_zoo(2)
GROWTH: dict[str, Any] = {
    "strategist": "thompson",
    "allow": ["replace", "spawn", "prune"],
    "forks": {"share": 0.6, "samples": 12, "least": 2, "orders": 1},
    "events": {
        "count": 4,
        "first": 0.1,
        "last": 0.6,
        "warm": 0.05,
        "horizon": 0.05,
        "actions": 1,
        "overhead": 10.0,
    },
    "fitness": {"samples": 12},
    "replay": {"capacity": 24, "steps": 2},
    # What is drawn without rows is far from 0, so that something is tried.
    "policy": {"gains": {"prior": 1.0}},
}
FLOPS = 1e8


def arm(**changes: Any) -> Trial:
    network = ModuleZooNetwork(structure=STRUCTURE)
    return Trial(name="forked", network=network, learning_rate=1e-2, procedure="grow", options=merge(GROWTH, changes))


def grown(one: Trial, pool: Path, *, resume: str | None = None, report: Any = None, seed: int = 5) -> Outcome:
    given = problem({"training": {"budget": {"steps": None, "flops": FLOPS}, "checkpoint_every": 3}}, pool, arms=(one,))
    outcome = given.read(evaluate_network(given.payload(one, seed, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def timeless(outcome: Outcome) -> dict[str, Any]:
    return merge(outcome.extra["growth"], {"overhead": {"seconds": 0, "seconds_share": 0}})


def remembered(outcome: Outcome, pool: Path) -> EditMemory:
    return EditMemory.loads(FolderPool(pool).get(outcome.blobs["edit_memory"]).decode())


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gains")


@pytest.fixture(scope="module")
def run(pool: Path) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    outcome = grown(arm(), pool, report=messages.append)
    tried = [row for row in outcome.extra["growth"]["forks"]["tried"] if row["chose"] is not None]
    assert tried, "something was measured"
    return {"outcome": outcome, "messages": messages, "tried": tried}


def test_the_memory_has_what_each_fork_measured(run: dict[str, Any], pool: Path) -> None:
    memory = remembered(run["outcome"], pool)
    gains = [edit.gain for edit in memory.edits if edit.gain is not None]
    assert len(gains) == len(run["tried"])
    for gain, fork in zip(gains, run["tried"], strict=True):
        parts = fork["chose"], fork["published"]
        assert gain.gain == pytest.approx(sum(part["gain"] * part["samples"] for part in parts) / gain.samples)
        assert gain.samples == sum(part["samples"] for part in parts)
        assert gain.steps == tuple(fork["steps"])
        assert gain.error >= (fork["noise"] or 0.0)
        assert gain.together == 1
    assert len({(gain.run, gain.data) for gain in gains}) == 1
    assert gains[0].data not in ("", gains[0].run)
    for edit, fork in zip((one for one in memory.edits if one.gain is not None), run["tried"], strict=True):
        assert fork["edits"][0].startswith(edit.action.operation)


@pytest.mark.slow
def test_another_seed_is_another_run_and_another_strategist_the_same(run: dict[str, Any], pool: Path) -> None:
    def names(outcome: Outcome) -> set[str]:
        return {edit.gain.run for edit in remembered(outcome, pool).edits if edit.gain is not None}

    first = names(run["outcome"])
    assert names(grown(arm(strategist="random"), pool)) == first
    assert names(grown(arm(), pool, seed=6)).isdisjoint(first)


def test_it_says_that_it_began_without_gains_or_how_well_it_foresees_those_that_it_was_given(
    run: dict[str, Any], pool: Path
) -> None:
    assert run["outcome"].extra["growth"]["foresight"] == {
        "correlation": None,
        "rows": 0,
        "runs": 0,
        "elsewhere": 0,
        "learned": False,
    }
    digest = run["outcome"].blobs["edit_memory"]
    again = grown(arm(edit_memory=digest), pool)
    assert again.extra["growth"]["foresight"]["rows"] == len(run["tried"])
    edits = remembered(again, pool).edits
    assert edits[: len(remembered(run["outcome"], pool).edits)] == remembered(run["outcome"], pool).edits
    assert "foresight" not in grown(arm(strategist="random"), pool).extra["growth"]


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_to_the_same_network_and_memory(
    run: dict[str, Any], pool: Path, tmp_path: Path
) -> None:
    kept = [message for message in run["messages"] if message.get("checkpoint")]
    assert len(kept) > 2
    for number, message in enumerate(kept[:: max(1, len(kept) // 5)]):
        own = FolderPool(tmp_path / str(number))
        for digest in (message["checkpoint"], *message["blobs"]):
            own.put_bytes(FolderPool(pool).get(digest))
        resumed = grown(arm(), tmp_path / str(number), resume=message["checkpoint"])
        assert timeless(resumed) == timeless(run["outcome"])
        assert resumed.blobs == run["outcome"].blobs


@pytest.mark.parametrize("level", [0.5, 0.999])
def test_a_replacement_is_kept_or_refused_as_a_whole_and_replays(level: float, tmp_path: Path) -> None:
    """At level .5 without noise about half of all forks keep; at .999 hardly one does."""
    one = arm(strategist="random", allow=["replace"], forks={"level": level, "orders": 0})
    outcome = grown(one, tmp_path)
    facts, blobs = outcome.extra["growth"], FolderPool(tmp_path)
    replacements = [row for row in facts["forks"]["tried"] if row["chose"] is not None]
    assert replacements
    assert all([words.split()[0] for words in row["edits"]] == ["replace", "prune"] for row in replacements)
    for row in facts["forks"]["tried"]:
        made = [edit["module"] for edit in facts["edits"] if edit["event"] == row["event"]]
        assert len(made) == 2
        assert all(module is not None for module in made) == row["kept"]
        assert any(module is not None for module in made) == row["kept"]
    assert len(facts["modules"]) == 2, "somebody has the place of whoever leaves"
    log = read_log(blobs.get(outcome.blobs["edits"]))
    replayed = replay_log(log.start, log.edits, lambda digest: blobs.get(outcome.blobs[f"parents/{digest}"]), log.birth)
    network, _ = load_network(blobs, outcome.blobs["weights"])
    assert replayed.modules == GROWABLES.get("module_zoo").of(network.structure).modules
    gains = [edit.gain for edit in remembered(outcome, tmp_path).edits]
    assert sum(isinstance(gain, MeasuredGain) and gain.together == 1 for gain in gains) == len(replacements)
