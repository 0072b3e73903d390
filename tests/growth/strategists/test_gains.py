"""Measured gains of edits: rows, features, the model in closed form, runs held out, and who is called learned."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, rankdata
from sklearn.linear_model import Ridge

from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.forks.interval import gain_of
from evodevo.growth.forks.records import ForkRecord
from evodevo.growth.report.foresight import called, foresight_words
from evodevo.growth.report.tables import GrownRow
from evodevo.growth.run import join
from evodevo.growth.strategists.base import StrategistState, create
from evodevo.growth.strategists.edit_memory import EditMemory, RememberedEdit
from evodevo.growth.strategists.gains import held_out as judged
from evodevo.growth.strategists.gains.features import KINDS, NAMES, added_flops, edit_features
from evodevo.growth.strategists.gains.held_out import Foresight, foreseen, held_out, rows_of
from evodevo.growth.strategists.gains.record import MeasuredGain, name_of
from evodevo.growth.strategists.gains.regression import FARTHEST, PRECISIONS, fit
from evodevo.growth.strategists.spec import GainSettings, StrategistSettings
from evodevo.growth.strategists.state import Legal, ModuleState, State
from evodevo.growth.strategists.thompson import Thompson
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.module_zoo.modules.cost import genotype_parameters, genotype_work
from evodevo.module_zoo.modules.vector import LENGTH, genotype_vector, width_of
from evodevo.module_zoo.modules.zoo import PAPER, archetype
from evodevo.randomness import generator
from evodevo.testing.strategists import everything, situations, some_zoo, through_files

PRUNE = Action(operation="prune", modules=("m2",))


def gain(value: float, run: str = "a", together: int = 1) -> MeasuredGain:
    return MeasuredGain(gain=value, error=0.01, samples=9, steps=(3, 4), side_flops=1e6, together=together, run=run)


def edit(action: Action, value: float | None, *, seed: int = 0, run: str = "a", together: int = 1) -> RememberedEdit:
    state = some_zoo(seed=seed)
    measured = None if value is None else gain(value, run, together)
    return RememberedEdit(state=state, legal=everything(state), action=action, reward=0.0, gain=measured)


# GainRows


def fork_of(first: Any, second: Any, noise: float | None = 0.03) -> ForkRecord:
    chose, published = (gain_of(*pair, 0.0 if noise is None else noise**2, 2, 0.95) for pair in (first, second))
    return ForkRecord(
        edits=("grow m1",), steps=(30, 40), chose=chose, published=published, noise=noise, side_flops=2e9, kept=False
    )


def test_a_gain_is_that_of_all_samples_whether_its_edits_were_kept_or_not() -> None:
    rng = np.random.default_rng(0)
    first, second = ((rng.random(count), rng.random(count)) for count in (40, 25))
    found = MeasuredGain.of(fork_of(first, second), 1, "a run")
    assert found is not None
    every = np.concatenate([without - edited for without, edited in (first, second)])
    assert found.gain == pytest.approx(every.mean())
    assert found.samples == 65
    # The variance of a mean of two independent means, and that of the noise.
    sampling = sum((without - edited).var(ddof=1) * len(without) for without, edited in (first, second)) / 65**2
    assert found.error == pytest.approx(math.sqrt(sampling + 0.03**2))
    assert (found.steps, found.side_flops, found.together, found.run) == ((30, 40), 2e9, 1, "a run")
    unmeasured = MeasuredGain.of(fork_of(first, second, None), 1, "a run")
    assert unmeasured is not None
    assert unmeasured.error == pytest.approx(math.sqrt(sampling))
    assert MeasuredGain.of(ForkRecord(edits=("grow m1",), reason="no fork is left"), 1, "a run") is None


def test_runs_that_begin_equally_have_one_name() -> None:
    assert name_of(seed=1, task="a") == name_of(task="a", seed=1) != name_of(seed=2, task="a")
    assert len(name_of(seed=1)) == 16


def test_the_memory_keeps_gains_of_edits_and_none_of_doing_nothing() -> None:
    state = some_zoo()
    legal = everything(state)
    decisions = (Decision(legal=legal, action=PRUNE), Decision(legal=legal, action=Action(operation="noop")))
    first = Transition(state=state, decisions=decisions, reward=1.0, gain=gain(0.2))
    idle = Transition(state=state, decisions=decisions[1:], reward=0.5, gain=gain(0.2))
    memory = EditMemory().with_event(first).with_event(idle)
    assert [one.gain for one in memory.edits] == [gain(0.2), None]
    assert EditMemory.loads(memory.dumps()) == memory
    assert join([memory, memory]) == memory
    plain = EditMemory().with_event(first.model_copy(update={"gain": None}))
    assert '"gain"' not in plain.dumps(), "as it was before there were forks"


def test_only_what_was_measured_alone_is_a_row() -> None:
    rows = rows_of([edit(PRUNE, 0.1), edit(PRUNE, 0.2, together=2), edit(PRUNE, None), edit(PRUNE, -0.3, run="b")])
    assert rows.gains.tolist() == [0.1, -0.3]
    assert rows.runs == ("a", "b")
    assert rows.features.shape == (2, len(NAMES))
    assert rows_of([]).features.shape[0] == 0


# Features


@settings(max_examples=40, deadline=None)
@given(situations(), st.randoms(use_true_random=False))
def test_features_do_not_depend_on_the_order_of_modules(situation: tuple[State, Legal], random: Any) -> None:
    state, legal = situation
    order = list(range(len(state.modules)))
    random.shuffle(order)
    for operation in legal.operations:
        if operation == "noop":
            continue
        for action in legal.targets(operation)[:3]:
            found = edit_features(state, action)
            assert found.shape == (len(NAMES),)
            assert np.isfinite(found).all()
            np.testing.assert_allclose(edit_features(state.permuted(order), action), found, atol=1e-9)
            kinds = {name: found[NAMES.index(name)] for name in (*KINDS, "in place")}
            assert sum(kinds.values()) == 1
            assert kinds.get(operation, kinds["in place"]) == 1


def module(name: str, family: str, width: int) -> ModuleState:
    genotype = archetype(family, width)
    return ModuleState(
        id=name,
        archetype=family,
        vector=tuple(round(number, 5) for number in genotype_vector(genotype)),
        parameters=genotype_parameters(genotype),
        flops=float(genotype_work(genotype, LENGTH).total),
    )


@pytest.mark.parametrize("width", [8, 16, 48, 512])
def test_the_size_of_a_newborn_is_that_of_the_modules_as_they_are_built(width: int) -> None:
    state = State(modules=(module("a", "mlp", width), module("b", "cnn", width)), most=9)
    for one in state.modules:
        assert width_of(one.vector, one.parameters) == width
    work = {family: float(genotype_work(archetype(family, width), LENGTH).total) for family in PAPER}
    added = {
        "spawn": (Action(operation="spawn", archetype="lstm"), work["lstm"]),
        "replace": (Action(operation="replace", modules=("a",), archetype="lstm"), work["lstm"] - work["mlp"]),
        "prune": (Action(operation="prune", modules=("b",)), -work["cnn"]),
        "grow": (Action(operation="grow", modules=("a",)), work["mlp"]),
        "hybridise": (Action(operation="hybridise", modules=("a", "b")), max(work["mlp"], work["cnn"])),
        "rewarm": (Action(operation="rewarm", modules=("a",)), 0.0),
    }
    for action, wanted in added.values():
        assert added_flops(state, action) == wanted
    relative = edit_features(state, added["prune"][0])[NAMES.index("relative FLOPs")]
    assert relative == pytest.approx(math.log(work["mlp"] / (work["mlp"] + work["cnn"])))


# The model


def planted(rows: int, features: int, seed: int, noise: float = 0.5) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    inputs = np.concatenate([np.ones((rows, 1)), rng.normal(3, 2, (rows, features - 1))], 1)
    return inputs, 0.1 * (inputs @ rng.normal(size=features) + noise * rng.normal(size=rows))


@example(rows=2, features=2, seed=724)  # foreseen farther than is believed
@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 30), features=st.integers(2, 8), seed=st.integers(0, 1000))
def test_the_posterior_is_that_of_ridge_regression_and_its_precision_the_most_evident(
    rows: int, features: int, seed: int
) -> None:
    """Against scikit-learn's ridge, and the density of the gains as scipy computes it."""
    inputs, gains = planted(rows, features, seed)
    found = fit(inputs, gains, 1.0)
    scaled = found.standardised(inputs)
    assert found.scale == np.median(np.abs(gains))
    targets = np.arcsinh(gains / found.scale)
    ridge = Ridge(alpha=found.precision, fit_intercept=False, tol=1e-10).fit(scaled, targets)
    other = planted(5, features, seed + 1)[0]
    expected = np.arcsinh(found.predict(other) / found.scale)
    wanted = ridge.predict(found.standardised(other)).clip(-FARTHEST, FARTHEST)
    np.testing.assert_allclose(expected, wanted, rtol=1e-6, atol=1e-9)

    def best(precision: float) -> float:
        spread = np.eye(rows) + scaled @ scaled.T / precision
        return -float(
            minimize_scalar(
                lambda log: -multivariate_normal.logpdf(targets, np.zeros(rows), math.exp(log) * spread),
                bounds=(-30, 10),
                method="bounded",
                options={"xatol": 1e-9},
            ).fun
        )

    evidences = [best(precision) for precision in PRECISIONS]
    assert evidences[PRECISIONS.index(found.precision)] == pytest.approx(max(evidences), abs=1e-3)
    likeliest = targets @ np.linalg.solve(np.eye(rows) + scaled @ scaled.T / found.precision, targets) / rows
    assert found.noise**2 == pytest.approx(max(likeliest, 1e-12 / rows), rel=1e-6)
    covariance = found.noise**2 * np.linalg.inv(scaled.T @ scaled + found.precision * np.eye(features))
    np.testing.assert_allclose(found.root @ found.root.T, covariance, rtol=1e-6, atol=1e-12)


def test_draws_have_the_mean_and_the_spread_of_the_posterior() -> None:
    inputs, gains = planted(12, 4, 0, noise=3.0)
    found = fit(inputs, gains, 1.0)
    other = planted(3, 4, 9)[0]
    rng = generator(1)
    draws = np.arcsinh(np.array([found.drawn(other, rng) for _ in range(4000)]) / found.scale)
    scaled = found.standardised(other)
    deviation = np.sqrt(np.diag(scaled @ found.root @ found.root.T @ scaled.T))
    np.testing.assert_allclose(draws.mean(0), scaled @ found.mean, atol=4 * deviation.max() / 4000**0.5)
    np.testing.assert_allclose(draws.std(0), deviation, rtol=0.06)


def test_without_rows_there_is_the_prior_and_with_equal_rows_nothing_breaks() -> None:
    prior = fit(np.zeros((0, 5)), np.zeros(0), 0.3)
    assert (prior.rows, prior.predict(np.ones(5))) == (0, 0.0)
    rng = generator(0)
    middle = np.median(np.abs([prior.drawn(np.ones(5), rng) for _ in range(3000)]))
    assert middle == pytest.approx(0.3 * math.sinh(0.6745), rel=0.07), "of a standard normal half lies within .6745"
    same = fit(np.ones((4, 5)), np.full(4, 0.2), 0.3)
    assert 0 < same.predict(np.ones(5)) <= 0.2
    nothing = fit(np.ones((4, 5)), np.zeros(4), 0.3)
    assert nothing.drawn(np.ones(5), rng) == 0.0


def test_numbers_of_a_strangers_memory_break_nothing() -> None:
    far = fit(*planted(6, 4, 0)[:1], np.array([1e308, -1e308, 1e-5, 1e-5, -1e-5, 0.0]), 0.1)
    assert np.isfinite(far.predict(np.full(4, 1e6)))
    state = some_zoo()
    heavy = tuple(one.model_copy(update={"flops": 1.7e308, "parameters": 10**30}) for one in state.modules)
    one = edit(PRUNE, 0.1).model_copy(update={"state": state.model_copy(update={"modules": heavy})})
    assert rows_of([one, edit(PRUNE, 0.2)]).gains.tolist() == [0.2]


# Runs held out


def memory_of(count: int, runs: int, value: Any) -> EditMemory:
    """Edits of every operation in some runs, their gains a function of (action, run, generator)."""
    edits = []
    for number in range(count):
        rng = np.random.default_rng(number)
        state = some_zoo(seed=number)
        legal = everything(state)
        operation = [name for name in legal.operations if name != "noop"][number % 5]
        action = legal.targets(operation)[int(rng.integers(len(legal.targets(operation))))]
        run = f"run {number % runs}"
        edits.append(edit(action, value(action, number % runs, rng), seed=number, run=run))
    return EditMemory(tuple(edits))


def test_what_follows_from_the_edit_is_foreseen_for_other_runs() -> None:
    worth = {name: float(place) for place, name in enumerate(KINDS)}
    pays = memory_of(120, 12, lambda action, run, rng: worth[action.operation] + 0.2 * rng.normal())
    seen = held_out(pays)
    assert (seen.rows, seen.runs) == (120, 12)
    assert seen.correlation is not None
    assert seen.correlation > 0.8
    assert seen.learned


def test_what_belongs_to_a_run_is_not_taken_for_foresight() -> None:
    """Gains that only say which run it was: with rows held out instead of runs a tree would foresee them."""
    marked = memory_of(120, 12, lambda action, run, rng: float(run % 3) + 0.01 * rng.normal())
    rows = rows_of(marked.edits)
    rows = judged.GainRows(
        np.array([[1.0, int(run[4:])] for run in rows.runs]), rows.gains, rows.errors, rows.runs, rows.edits
    )

    def same_run(features: Any, gains: Any, others: Any) -> Any:
        known = dict(zip(features[:, 1], gains, strict=True))
        return np.array([known.get(run, 0.0) for run in others[:, 1]])

    assert (foreseen(rows, same_run) == 0).all(), "nothing of a run is known to who foresees it"
    chance = memory_of(120, 12, lambda action, run, rng: rng.normal())
    assert not held_out(chance).learned


def test_the_correlation_is_that_of_ranks_and_many_runs_are_held_out_together() -> None:
    memory = memory_of(100, 50, lambda action, run, rng: (action.operation == "grow") + rng.normal())
    rows, calls = rows_of(memory.edits), []

    def counted(features: Any, gains: Any, others: Any) -> Any:
        calls.append(len(others))
        return judged.linear(features, gains, others)

    expected = foreseen(rows, counted)
    assert len(calls) == judged.MOST_FOLDS
    assert sum(calls) == 100
    ranks = np.corrcoef(rankdata(expected), rankdata(rows.gains))[0, 1]
    assert held_out(memory).correlation == pytest.approx(ranks)


def test_too_little_has_no_correlation_and_the_bound_is_above() -> None:
    assert held_out(EditMemory()) == Foresight(None, 0, 0)
    assert held_out(memory_of(30, 2, lambda *_: 1.0)).correlation is None
    assert held_out(memory_of(30, 6, lambda *_: 1.0)).correlation is None, "equal gains have no ranks"
    assert not Foresight(0.4, 100, 10).learned
    assert Foresight(0.41, 100, 10).learned
    assert not Foresight(None, 0, 0).learned


def test_gains_on_other_data_say_nothing_of_this() -> None:
    worth = {name: float(place) for place, name in enumerate(KINDS)}
    memory = memory_of(120, 12, lambda action, run, rng: worth[action.operation] + 0.2 * rng.normal())

    def on(data: str) -> EditMemory:
        gains = [one.gain.model_copy(update={"data": data}) for one in memory.edits if one.gain is not None]
        pairs = zip(memory.edits, gains, strict=True)
        return EditMemory(tuple(one.model_copy(update={"gain": measured}) for one, measured in pairs))

    assert held_out(on("this"), "this").learned
    assert held_out(on("this"), "this").correlation == held_out(memory).correlation
    assert held_out(on("other"), "this") == Foresight(None, 0, 0, 120)
    assert held_out(memory, "this") == Foresight(None, 0, 0, 120), "a memory that does not say"


# The strategist


def choices(strategist: Thompson, seeds: range = range(40)) -> list[str]:
    found = []
    for seed in seeds:
        state = some_zoo(5, seed=900 + seed)
        done = strategist.propose(state, everything(state), generator(seed))
        found.append(done[0].operation if done else "noop")
    return found


def thompson(memory: EditMemory, **gains: Any) -> Thompson:
    strategist = create("thompson", settings=StrategistSettings(gains=GainSettings(**gains)), actions=1)
    assert isinstance(strategist, Thompson)
    strategist.remember(memory)
    return strategist


def test_it_does_what_paid_and_nothing_where_everything_cost() -> None:
    pays = memory_of(150, 10, lambda action, run, rng: 0.3 * (action.operation == "prune") - 0.1 + 0.02 * rng.normal())
    assert choices(thompson(pays)).count("prune") >= 36
    costs = memory_of(150, 10, lambda action, run, rng: -0.3 + 0.02 * rng.normal())
    assert choices(thompson(costs)).count("noop") >= 36


def test_without_a_memory_it_explores() -> None:
    strategist = thompson(EditMemory())
    assert strategist.posterior.rows == 0
    assert len(set(choices(strategist))) >= 4
    assert thompson(memory_of(5, 2, lambda *_: None)).posterior.rows == 0, "rewards are no gains"


def test_it_learns_in_a_run_what_it_would_have_from_a_memory_and_goes_on_identically() -> None:
    memory = memory_of(60, 6, lambda action, run, rng: 0.2 * (action.operation == "spawn") + 0.1 * rng.normal())
    known, learning = thompson(memory), thompson(EditMemory())
    for one in memory.edits:
        decisions = (Decision(legal=one.legal, action=one.action),)
        told = learning.update([Transition(state=one.state, decisions=decisions, reward=0.0, gain=one.gain)])
    assert told == {"gains": 60.0, "noise": known.posterior.noise}
    both = (Decision(legal=everything(some_zoo()), action=PRUNE),) * 2
    assert learning.update([Transition(state=some_zoo(), decisions=both, reward=0.0, gain=gain(9.0, together=2))]) == {}
    assert choices(learning) == choices(known)
    other = thompson(EditMemory())
    other.load_state_dict(through_files(learning.state_dict()))
    assert choices(other) == choices(known)
    assert np.array_equal(other.posterior.mean, known.posterior.mean)


def test_a_state_of_other_features_or_shapes_is_refused_and_changes_nothing() -> None:
    strategist = thompson(memory_of(20, 4, lambda *_: 0.5))
    kept, before = strategist.state_dict(), choices(strategist)
    wrong = (
        StrategistState(kept.tensors, {**kept.data, "features": ["constant"]}),
        StrategistState({"gains": kept.tensors["gains"]}, kept.data),
        StrategistState({**kept.tensors, "gains": kept.tensors["gains"][:3]}, kept.data),
    )
    for snapshot in wrong:
        with pytest.raises(UsageError, match=r"had learnt|was learnt"):
            strategist.load_state_dict(snapshot)
    assert choices(strategist) == before


# Words


@pytest.mark.parametrize(
    ("seen", "words", "name"),
    [
        (None, [], ""),
        (Foresight(None, 0, 0), ["had no measured gain: prior alone. Not learned."], "not learned"),
        (
            Foresight(None, 5, 1),
            ["1 run on this data, too few for a correlation. Not learned."],
            "not learned",
        ),
        (
            Foresight(None, 0, 0, 7),
            ["has 7 gains, none of them of this data. Not learned."],
            "not learned",
        ),
        (
            Foresight(0.12, 120, 30),
            ["out: +0.12 (120 gains of 30 runs on this data). Not learned."],
            "not learned",
        ),
        (Foresight(0.52, 120, 30), ["runs held out: +0.52 (120 gains of 30 runs on this data). Learned."], "learned"),
    ],
)
def test_who_is_called_learned_is_said_with_the_number(seen: Foresight | None, words: list[str], name: str) -> None:
    growth: Any = SimpleNamespace(strategist="thompson", foresight=None if seen is None else seen.to_json())
    found = foresight_words(growth)
    assert len(found) == len(words)
    assert all(sentence.endswith(end) for sentence, end in zip(found, words, strict=True))
    assert called(growth) == name
    row = GrownRow("grown", ((SimpleNamespace(), growth),))  # type: ignore[arg-type]
    assert row.called == ("thompson" if seen is None else f"thompson ({name})")
