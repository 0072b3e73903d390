"""Runs of zoos that grow: what they leave, what they take over, and their history made again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from evodevo import canonical
from evodevo.errors import DataError, StoreDamagedError, UsageError
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth import run as growing
from evodevo.growth.replay_run import LOG, PARENTS, WEIGHTS, replay
from evodevo.growth.report.policy import policy_words
from evodevo.growth.report.reading import growth_of
from evodevo.growth.run import edit_memories, grow, join
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.memory_of_policy import PolicyMemory
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.archive import Archive, Individual, Run
from evodevo.runs.evolve import begin, resume
from evodevo.runs.recipe import ExecutionSettings
from evodevo.settings import merge
from evodevo.storage import Store
from evodevo.storage.blobs import FolderPool
from evodevo.testing.small_networks import settings as small_settings
from fixtures import questions

SMALL: dict[str, Any] = {
    "zoo": {"width": 16, "extractor": {"blocks": 0}, "modules": "mlp,squeeze_excite,cnn"},
    "grow": {
        "events": {"count": 3, "first": 0.2, "last": 0.8, "warm": 0.2, "horizon": 0.15, "looks": 0},
        "fitness": {"samples": 16},
        "race": {"otherwise": "all"},
        "allow": ["prune", "grow", "spawn", "hybridise", "rewarm"],
        "prune": {"rule": "standard", "age": 0, "tolerance": 10.0, "least": 2, "distil_steps": 2},
        "replay": {"capacity": 16, "steps": 1},
    },
    "evaluation": {
        "training": {"budget": {"steps": 20, "seconds": None}, "batch_size": 8, "device": "cpu", "checkpoint_every": 4},
        "validation_samples": 32,
        "test_samples": 32,
        "curve_points": 2,
        "curve_samples": 16,
        "exchange": False,
        "seconds": None,
        "memory_bytes": None,
    },
    "execution": {"executor": "serial"},
}
"""With the seed of the recipe and these operations, the random strategist lets somebody be born of a parent and takes
somebody away.
"""


@pytest.fixture(scope="module", autouse=True)
def _questions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        questions.once(patch)
        yield


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, _questions: None) -> Path:
    """A store with one run: random, and fixed."""
    folder = tmp_path_factory.mktemp("grown") / "runs"
    run = grow(strategist="random", overrides=SMALL, store=folder, cache_folder=folder.parent / "cache")
    assert (run.kind, run.state) == ("grow", "finished")
    run.archive.close()
    return folder


@pytest.fixture(scope="module")
def copied(grown: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store once more, to which tests add."""
    return Path(shutil.copytree(grown, tmp_path_factory.mktemp("copied") / "runs"))


@pytest.fixture
def run(grown: Path) -> Iterator[Run]:
    with Archive(grown) as archive:
        yield archive.run("last")


@pytest.fixture
def one(run: Run) -> Individual:
    """The zoo that grew."""
    return of(run, "grown by random")


def of(run: Run, name: str) -> Individual:
    return next(one for one in run.individuals() if one.genome.name == name)


def with_blobs(one: Individual, blobs: dict[str, str], extra: dict[str, Any] | None = None) -> Individual:
    """The same individual, whose evaluation holds other blobs, and tells other facts."""
    assert one.evaluation is not None
    changed = dataclasses.replace(one.evaluation, blobs=blobs, extra=one.evaluation.extra if extra is None else extra)
    again = Individual(one.run, one.row, one.evaluations)
    again.__dict__["evaluation"] = changed
    return again


def blobs_of(one: Individual) -> dict[str, str]:
    assert one.evaluation is not None
    return dict(one.evaluation.blobs)


def log_of(one: Individual) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(one.run.archive.store.blobs.get(blobs_of(one)[LOG]))
    return found


# Replay


@pytest.mark.slow
def test_a_growth_made_again_is_the_one_that_was(one: Individual) -> None:
    done = replay(one)
    growth = one.fact["growth"]
    assert done.modules == tuple(growth["modules"])
    assert done.is_compared
    assert [edit.child for edit in done.edits] == [edit["module"] for edit in growth["edits"]]
    born = [edit for edit in done.edits if edit.weights is not None]
    assert [edit.child for edit in born] == [name for event in growth["timeline"] for name in event["born"]]
    assert any(edit.parents for edit in born), "somebody inherits"
    assert all(edit.parameters > 0 for edit in born)
    gone = [edit for edit in done.edits if edit.parameters < 0]
    assert [edit.child for edit in gone] == [name for event in growth["timeline"] for name in event["gone"]] != []
    assert done.blobs == len(blobs_of(one))
    assert replay(one) == done
    assert json.loads(json.dumps(done.to_json()))["modules"] == growth["modules"]


def test_a_zoo_that_nobody_changed_replays_too(run: Run) -> None:
    done = replay(of(run, "fixed"))
    assert done.edits == ()
    assert done.start == done.modules


def test_without_weights_there_is_nothing_to_compare_with(one: Individual) -> None:
    kept = {role: digest for role, digest in blobs_of(one).items() if not role.startswith(WEIGHTS)}
    done = replay(with_blobs(one, kept))
    assert not done.is_compared
    assert done.modules == tuple(one.fact["growth"]["modules"])


def test_who_did_not_grow_has_no_history(one: Individual) -> None:
    with pytest.raises(UsageError, match="no log of edits"):
        replay(with_blobs(one, {}))


@pytest.mark.parametrize("role", [PARENTS, LOG, WEIGHTS])
@pytest.mark.parametrize("what", ["flipped", "missing"])
def test_a_blob_that_is_not_what_was_written_is_seen(one: Individual, tmp_path: Path, role: str, what: str) -> None:
    digest = next(own for name, own in blobs_of(one).items() if name.startswith(role))
    folder = Path(shutil.copytree(one.run.archive.folder, tmp_path / "copy"))
    with Archive(folder) as archive:
        path = archive.store.blobs.path(digest)
        data = bytearray(path.read_bytes())
        path.chmod(0o600)
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        if what == "missing":
            path.unlink()
        with pytest.raises(StoreDamagedError, match=digest):
            replay(archive.individual(one.id))
    with Store.open(folder, "ro") as store:
        assert [problem.subject for problem in store.check(deep=True).problems] == [digest]


def births(edits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [edit for edit in edits if edit["after"] is not None]


def inherited(edits: list[dict[str, Any]]) -> dict[str, Any]:
    """A birth in which a tensor comes from a blob."""
    return next(edit for edit in births(edits) if any(source["digest"] for source in edit["tensors"]))


def source_of(log: dict[str, Any], what: str = "digest") -> dict[str, Any]:
    """A tensor of an inherited module that has this."""
    return next(one for one in inherited(log["edits"])["tensors"] if one[what])


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another seed": lambda log: inherited(log["edits"]).update(seed=0),
    "another genotype": lambda log: inherited(log["edits"]).update(after=log["start"][0]["genotype"]),
    "another blob": lambda log: source_of(log).update(digest="0" * 64),
    "another source": lambda log: source_of(log, "source").update(source="parts.nowhere.weight"),
    "another rule": lambda log: source_of(log).update(rule="fresh"),
    "no birth": lambda log: log["edits"].remove(inherited(log["edits"])),
    "born twice": lambda log: log["edits"].append(births(log["edits"])[-1]),
    "no start": lambda log: log["start"].pop(0),
}


@pytest.mark.parametrize("beside", [True, False], ids=["with its record", "alone"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_log_is_one_clear_error(one: Individual, copied: Path, change: str, beside: bool) -> None:
    """Whether the record alone speaks against it, or its blobs and the kept network alone."""
    log = log_of(one)
    CHANGES[change](log)
    digest = FolderPool(copied / "blobs").put_bytes(canonical.dumps(log).encode())
    with Archive(copied) as archive:
        again = archive.individual(one.id)
        assert again.evaluation is not None
        facts = again.evaluation.extra
        growth = facts["growth"] if beside else {**facts["growth"], "edits": None}
        kept = {role: own for role, own in blobs_of(one).items() if not (beside and role.startswith(WEIGHTS))}
        changed = with_blobs(again, {**kept, LOG: digest}, {**facts, "growth": growth})
        with pytest.raises(DataError, match="log") as error:
            replay(changed)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["paper", "carried"])
def test_an_h_model_that_grew_has_a_history_too(stream: Literal["paper", "carried"], tmp_path: Path) -> None:
    """Layers that are no modules have names by their places, which move."""
    _, mlp, _, _, _, squeeze = start_zoo(16)
    structure = HModelStructure(
        width=16,
        hidden=(
            TransformerLayer(heads=2),
            GenotypeLayer(module=mlp),
            TransformerLayer(heads=4),
            GenotypeLayer(module=squeeze),
        ),
        iterations=2,
        input_blocks=0,
        output_blocks=0,
        stream=stream,
    )
    arm = Variant(
        name="grown",
        network=HModelNetwork(structure=structure),
        procedure="grow",
        options={"strategist": "random", **SMALL["grow"]},
    )
    settings = ExperimentSettings(
        experiment=Comparison(arms=(arm,), seeds=2),
        evaluation=small_settings({"training": {"budget": {"steps": 20}}}),
        execution=ExecutionSettings(executor="serial"),
    )
    run = begin(
        "grow", "h_model.own", settings, store=tmp_path / "runs", listener=None, on_start=None, cache_folder=tmp_path
    )
    with run.archive:
        replays = [replay(one) for one in run.individuals()]
    assert all(one.is_compared for one in replays)
    gone = {edit.child for one in replays for edit in one.edits if edit.operation == "prune"}
    assert gone & {"transformer-0", "transformer-2"}, "places move"
    assert any(edit.weights is not None for one in replays for edit in one.edits)


# Memories


class Begun(Exception):
    """What a run would have begun with."""

    def __init__(self, settings: Any, held: dict[str, bytes]) -> None:
        super().__init__()
        self.settings = settings
        self.held = held


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, grown: Path) -> Callable[..., Begun]:
    """``grow`` up to the moment in which something would be recorded."""

    def stop(kind: str, recipe: str, settings: Any, *, held: dict[str, bytes], **more: Any) -> Run:
        raise Begun(settings, held)

    monkeypatch.setattr(growing, "begin", stop)

    def call(**given: Any) -> Begun:
        with pytest.raises(Begun) as found:
            grow(**{"overrides": SMALL, "store": grown, **given})
        return found.value

    return call


def test_what_a_run_learned_is_handed_over(run: Run, begun: Callable[..., Begun]) -> None:
    found = begun(strategist="ppo,reinforce", memory=run.id)
    (role,) = found.held
    assert role == "edit_memory/all"
    memory = EditMemory.loads(found.held[role].decode())
    own = of(run, "grown by random")
    known = EditMemory.loads(run.archive.store.blobs.get(blobs_of(own)["edit_memory"]).decode())
    assert memory == known
    assert memory.edits
    digests = {arm.name: arm.options.get("edit_memory") for arm in found.settings.experiment.arms}
    with_memory = {name for name, digest in digests.items() if digest is not None}
    assert with_memory == {"grown by ppo", "grown by reinforce"}
    assert digests["grown by ppo"] == digests["grown by reinforce"]


def test_a_strategist_remembers_its_own_edits_first(
    run: Run, begun: Callable[..., Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, whole), *_) = [pair for pair in edit_memories(run) if pair[1].edits]
    own, others = EditMemory(whole.edits[:1]), EditMemory(whole.edits[1:])
    monkeypatch.setattr(growing, "edit_memories", lambda run: [("ppo", own), ("random", others)])
    found = begun(strategist="ppo,reinforce", memory="last")
    digests = {arm.name: arm.options.get("edit_memory") for arm in found.settings.experiment.arms}
    held = {hashlib.sha256(data).hexdigest(): EditMemory.loads(data.decode()) for data in found.held.values()}
    assert held == {digests["grown by ppo"]: own, digests["grown by reinforce"]: whole}
    assert own != whole


@pytest.mark.parametrize("memory", [None, "none"])
def test_nothing_is_remembered_unless_asked_for(begun: Callable[..., Begun], memory: str | None) -> None:
    found = begun(memory=memory)
    assert found.held == {}
    assert all("edit_memory" not in arm.options for arm in found.settings.experiment.arms)


def test_what_two_took_over_counts_once(run: Run) -> None:
    ((_, first), *_) = [pair for pair in edit_memories(run) if pair[1].edits]
    before, after = EditMemory(first.edits[:1]), first
    assert join([before, after]) == join([after]) == join([after, after]) == after
    assert join([]) == EditMemory()


def test_a_run_without_memories_is_one_clear_error(
    grown: Path, begun: Callable[..., Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "edit_memories", lambda run: [("fixed", EditMemory())])
    with pytest.raises(UsageError, match="remembers no edit"):
        grow(memory="last", store=grown, overrides=SMALL)


@pytest.mark.parametrize("strategist", [None, "heuristic"])
def test_a_memory_from_which_nobody_learns_is_one_clear_error(
    grown: Path, begun: Callable[..., Begun], strategist: str | None
) -> None:
    with pytest.raises(UsageError, match="name one with --strategist"):
        grow(memory="last", store=grown, overrides=SMALL, strategist=strategist)


def test_a_memory_of_another_version_is_refused_before_anything_is_recorded(
    grown: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = blobs_of(of(run, "grown by random"))["edit_memory"]
    old = run.archive.store.blobs.get(kept).replace(b"evodevo.edit_memory/1", b"evodevo.edit_memory/0", 1)
    really = FolderPool.get
    monkeypatch.setattr(FolderPool, "get", lambda pool, name: old if name == kept else really(pool, name))
    with pytest.raises(UsageError, match="edit_memory/0"):
        grow(memory="last", store=grown, overrides=SMALL)
    assert len(run.archive.runs()) == 1


@pytest.mark.slow
def test_a_second_run_begins_with_the_edits_of_the_first(copied: Path) -> None:
    short = {"grow": {"events": {"count": 1}}, "evaluation": {"training": {"budget": {"steps": 8}}}}
    with grow(strategist="reinforce", memory="last", overrides=merge(SMALL, short), store=copied).archive as archive:
        first, second = archive.runs()
        before, after = (
            EditMemory.loads(archive.store.blobs.get(blobs_of(one)["edit_memory"]).decode()).edits
            for one in (of(first, "grown by random"), of(second, "grown by reinforce"))
        )
        assert after[: len(before)] == before
        assert len(after) > len(before)
        held = archive.store.run_blobs(second.id)
        assert of(second, "grown by reinforce").genome.options["edit_memory"] in held.values()
        others = [of(second, name) for name in ("grown by random", "grown by heuristic", "fixed")]
        assert all("edit_memory" not in one.genome.options for one in others)


# Policies


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory, _questions: None) -> Path:
    """A store with one run of two seeds: PPO, and those that stand beside it."""
    folder = tmp_path_factory.mktemp("policed") / "runs"
    overrides = merge(SMALL, {"experiment": {"seeds": 2}, "grow": {"events": {"count": 2}}})
    grow(strategist="ppo", overrides=overrides, store=folder, cache_folder=folder.parent / "cache").archive.close()
    return folder


def policy_of(one: Individual) -> bytes:
    return one.run.archive.store.blobs.get(blobs_of(one)["policy_memory"])


@pytest.mark.slow
def test_the_policy_of_the_first_training_or_of_the_named_one_is_handed_over(
    policed: Path, begun: Callable[..., Begun]
) -> None:
    with Archive(policed) as archive:
        run = archive.run("last")
        own = [one for one in run.individuals() if one.genome.name == "grown by ppo"]
        policies = [policy_of(one) for one in own]
        assert [one.genome.seed for one in own] == [0, 1]
        assert policies[0] != policies[1]
        assert sum("policy_memory" in blobs_of(one) for one in run.individuals()) == 2, "of policies alone"
        for memory, expected in ((run.id, policies[0]), ("last", policies[0]), (own[1].id, policies[1])):
            found = begun(store=policed, strategist="ppo,reinforce", memory=memory)
            assert found.held["policy_memory/ppo"] == expected
            assert [role for role in found.held if role.startswith("policy")] == ["policy_memory/ppo"]
            digests = {arm.name: arm.options.get("policy_memory") for arm in found.settings.experiment.arms}
            named = {name: digest for name, digest in digests.items() if digest is not None}
            assert named == {"grown by ppo": hashlib.sha256(expected).hexdigest()}
        (edits,) = (EditMemory.loads(data.decode()) for role, data in found.held.items() if role.startswith("edit"))
        assert len(edits.edits) < len(join(memory for _, memory in edit_memories(run)).edits)


@pytest.mark.slow
def test_a_policy_of_another_shape_is_refused_before_anything_is_recorded(
    policed: Path, begun: Callable[..., Begun]
) -> None:
    narrow = merge(SMALL, {"grow": {"strategist": "ppo", "policy": {"learning": {"width": 8}}}})
    with pytest.raises(UsageError, match=r"does not fit its policy.*grow\.policy\.memory\.continues=false"):
        grow(memory="last", store=policed, overrides=narrow)
    for words in ({"policy": {"memory": {"continues": False}}}, {"memory": False}):
        assert begun(store=policed, memory="last", overrides=merge(narrow, {"grow": words})).held


@pytest.mark.slow
def test_runs_in_sequence_are_one_course_of_the_policy(policed: Path, tmp_path: Path) -> None:
    """Both seeds of the second run go on from one policy; it replays, and its report tells of it."""
    folder = Path(shutil.copytree(policed, tmp_path / "runs"))
    overrides = merge(SMALL, {"experiment": {"seeds": 2}, "study": {"seed": 7}, "grow": {"events": {"count": 2}}})
    with grow(strategist="ppo,reinforce", memory="last", overrides=overrides, store=folder).archive as archive:
        run = archive.run("last")
        for one in run.individuals():
            told = one.fact["growth"].get("policy")
            growth = growth_of(one)
            assert growth is not None
            policy = policy_words(growth)
            if one.genome.name == "grown by ppo":
                assert told == {"runs": 1, "rewards": 2, "anew": ""}
                assert policy == ["The policy of ppo went on from 1 run with 2 rewards."]
                kept = PolicyMemory.loads(policy_of(one))
                assert (kept.runs, kept.scale.count) == (2, 4)
            elif one.genome.name == "grown by reinforce":
                assert told == {"runs": 0, "rewards": 0, "anew": "the memory has no policy of reinforce"}
                assert policy == ["The policy of reinforce began anew: the memory has no policy of reinforce."]
            else:
                assert told is None
                assert policy == []
            assert replay(one).modules == tuple(one.fact["growth"]["modules"])
        assert archive.store.check(deep=True).ok


# Interruptions


def told(run: Run) -> list[dict[str, Any]]:
    """Payloads of the events of growth in the store."""
    return [dict(one.payload) for one in run.archive.store.events(run.id) if one.type == "growth"]


def test_every_edit_is_an_event_in_the_store(run: Run, one: Individual) -> None:
    pairs = [f"{what} {number}" for number in (1, 2, 3) for what in ("event", "reward")]
    assert [event["name"] for event in told(run)] == ["race", *pairs], "a classifier begins with a race"
    edits = [edit for event in told(run) for edit in event.get("event", {}).get("edits", ())]
    bare = [{name: value for name, value in edit.items() if name != "tensors"} for edit in edits]
    assert bare == one.fact["growth"]["edits"]
    assert all(set(edit) >= {"action", "seed", "before", "after"} for edit in edits)
    named = [source["digest"] for edit in edits for source in edit["tensors"] if source.get("digest")]
    assert named
    assert all(run.archive.store.blobs.size(digest) for digest in named)


class Killed(BaseException):
    """As kill -9."""


@pytest.mark.slow
def test_killed_where_edits_are_told_and_resumed_it_is_the_same_run(grown: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    def die(kind: str, facts: dict[str, Any]) -> None:
        if kind == "progress" and "event" in facts.get("growth", {}):
            seen.append(facts["growth"]["event"])
            if len(seen) == 1:
                raise Killed
        if "checkpoint" in facts and 2 in seen:
            raise Killed

    folder = tmp_path / "runs"
    with pytest.raises(Killed):
        grow(strategist="random", overrides=SMALL, store=folder, listener=die)
    with pytest.raises(Killed):
        resume("last", store=folder, listener=die)
    with Archive(folder) as archive:
        assert archive.run("last").state == "interrupted"
    with resume("last", store=folder).archive as archive, Archive(grown) as whole:
        runs = (archive.run("last"), whole.run("last"))
        assert told(runs[0]) == told(runs[1])
        for name in ("grown by random", "fixed"):
            ours, theirs = (of(run, name) for run in runs)
            assert blobs_of(ours) == blobs_of(theirs)
            seconds = {"overhead": {"seconds": 0, "seconds_share": 0}}
            assert merge(ours.fact["growth"], seconds) == merge(theirs.fact["growth"], seconds)
        assert replay(of(runs[0], "grown by random")).is_compared
        assert archive.store.check(deep=True).ok
