"""Multipath children: whose paths they look through, and what they inherit (docs/spec/munet.md#multipath-children)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from evodevo import canonical
from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.genome import ComponentUse, Path, SubPath
from evodevo.multitask.hyperparameters import MU, multipath_hyperparameters
from evodevo.multitask.search.components import Place
from evodevo.multitask.search.mutation import MutationSettings
from evodevo.multitask.search.sampler import (
    Evidence,
    Record,
    SamplerSettings,
    agent_weights,
    component_similarity,
    draw,
    records,
)
from evodevo.multitask.search.supports import (
    MultipathPlan,
    MultipathSettings,
    SupportSettings,
    choose_supports,
    draw_main,
    plan_multipath_child,
)
from evodevo.randomness import generator

MAIN = SubPath(agent="Vit~a", number=7)
POOL = [SubPath(agent=f"Vit~{name}", number=number) for name in "abcdef" for number in (1, 2)]
SPACE = multipath_hyperparameters()
STILL = MultipathSettings(mutation=MutationSettings(forced=(), forbidden=("*",)))


def needs(paths: tuple[SubPath, ...]) -> list[Place]:
    joints = [Place(f"connector_{number}", "8x2") for number in range(1, len(paths))]
    return [*joints, Place("router", f"2x{len(paths)}")]


def multipath(*supports: SubPath) -> tuple[Path, list[Place]]:
    paths = (MAIN, *supports)
    places = [Place(one.role, one.signature, f"MultiVit~a:{n}") for n, one in enumerate(needs(paths))]
    path = Path(
        agent="MultiVit~a",
        number=4,
        task="a",
        classes=2,
        kind="multipath",
        hparams=SPACE.defaults() | {"num_paths": len(paths)},
        mu={MU: 0.3},
        components=tuple(ComponentUse(role=one.role, id=one.id or "") for one in places),
        paths=paths,
    )
    return path, places


def child(
    parent: tuple[Path, list[Place]] | None,
    *,
    seed: int = 1,
    num_paths: int | None = None,
    settings: MultipathSettings = STILL,
    pool: Sequence[SubPath] = POOL,
) -> MultipathPlan:
    path, places = parent if parent is not None else (None, [])
    if path is not None and num_paths is not None:
        path = path.model_copy(update={"hparams": path.hparams | {"num_paths": num_paths}})
    return plan_multipath_child(
        path, places, main=MAIN, pool=pool, needs=needs, space=SPACE, settings=settings, rng=generator(seed, "multi")
    )


def fates(plan: MultipathPlan) -> dict[str, str]:
    return {one.role: one.fate for one in plan.components}


@pytest.mark.parametrize("seed", range(40))
def test_supports_are_paths_in_sight_of_distinct_agents_and_never_the_main_one_s(seed: int) -> None:
    for kind in ("uniform", "informed"):
        settings = SupportSettings(sampler=SamplerSettings(kind="informed" if kind == "informed" else "uniform"))
        evidence = Evidence({"Vit~b": Record(5, 5)}, {"Vit~c": 0.1, "Vit~unseen": 1.0})
        drawn = choose_supports((), 3, MAIN, POOL, generator(seed, kind), settings, evidence)
        agents = [one.path.agent for one in drawn]
        assert len(set(agents)) == 3
        assert MAIN.agent not in agents
        assert all(one.path in POOL for one in drawn)
        assert [one.candidates for one in drawn] == [10, 8, 6]


def test_uniform_draws_are_uniform_over_paths_whatever_order_they_come_in() -> None:
    rngs = [generator(seed, "uniform") for seed in range(3_000)]
    drawn = [choose_supports((), 1, MAIN, POOL, rng, SupportSettings())[0] for rng in rngs]
    assert {one.probability for one in drawn} == {0.1}
    for path in POOL[2:]:
        assert abs(np.mean([one.path == path for one in drawn]) - 0.1) < 0.02
    again = [choose_supports((), 1, MAIN, POOL[::-1], generator(s, "uniform"), SupportSettings())[0] for s in range(50)]
    assert again == drawn[:50]


def test_informed_draws_prefer_past_success() -> None:
    settings = SupportSettings(sampler=SamplerSettings(kind="informed"))
    evidence = Evidence({"Vit~b": Record(20, 20), **{f"Vit~{name}": Record(20, 0) for name in "cdef"}})
    drawn = [choose_supports((), 1, MAIN, POOL, generator(s, "i"), settings, evidence)[0] for s in range(1_000)]
    share = np.mean([one.path.agent == "Vit~b" for one in drawn])
    assert share > 0.6
    assert {one.path.agent for one in drawn} == {f"Vit~{name}" for name in "bcdef"}
    assert drawn[0].probability is not None
    assert share == pytest.approx(2 * max(one.probability or 0 for one in drawn), abs=0.05)


def test_supports_are_kept_by_place_even_when_their_agents_published_newer_paths() -> None:
    old = [SubPath(agent="Vit~b", number=0), SubPath(agent="Vit~gone", number=3)]
    kept = choose_supports(old, 2, MAIN, POOL, generator(1), SupportSettings())
    assert [(one.number, one.path, one.how) for one in kept] == [(1, old[0], "kept"), (2, old[1], "kept")]
    assert [one.path for one in choose_supports(old, 1, MAIN, POOL, generator(1), SupportSettings())] == old[:1]
    for seed in range(30):
        added = choose_supports(old, 3, MAIN, POOL, generator(seed), SupportSettings())
        assert added[2].path.agent in {f"Vit~{name}" for name in "cdef"}


def test_nobody_is_left_to_draw() -> None:
    drawn = choose_supports((), 3, MAIN, POOL[:4], generator(1), SupportSettings())
    assert [one.path.agent for one in drawn] == ["Vit~b"]
    with pytest.raises(UsageError, match="needs a support"):
        child(None, pool=POOL[:2])


def test_excluded_agents_are_no_supports() -> None:
    few = SubPath(agent="Vit~vtab~1k", number=1)
    assert choose_supports((), 1, MAIN, [few], generator(1), SupportSettings()) == ()
    assert choose_supports((), 1, MAIN, [few], generator(1), SupportSettings(exclude=()))[0].path == few


def test_the_first_support_may_be_forced() -> None:
    settings = SupportSettings(first="Vit~c")
    for seed in range(20):
        drawn = choose_supports((), 2, MAIN, POOL, generator(seed), settings)
        assert (drawn[0].path.agent, drawn[0].how) == ("Vit~c", "forced")
        assert drawn[1].path.agent not in ("Vit~c", MAIN.agent)
    old = [POOL[2], POOL[4]]
    changed = choose_supports(old, 2, MAIN, POOL, generator(1), settings)
    assert changed[0].path.agent == "Vit~c"
    assert changed[1].path.agent != "Vit~c"
    same = choose_supports(old[::-1], 2, MAIN, POOL, generator(1), settings)
    assert [one.how for one in same] == ["kept", "kept"]
    with pytest.raises(NotFoundError, match="Vit~z"):
        choose_supports((), 1, MAIN, POOL, generator(1), SupportSettings(first="Vit~z"))


def test_a_child_with_other_values_only_inherits_everything() -> None:
    parent = multipath(POOL[2])
    settings = MultipathSettings(mutation=MutationSettings(forced=("hp:opt_lr",), forbidden=("*",)))
    plan = child(parent, settings=settings)
    assert plan.moves
    assert plan.paths == (MAIN, POOL[2])
    assert fates(plan) == {"connector_1": "clone", "router": "clone"}
    assert [one.source for one in plan.components] == [one.id for one in parent[1]]
    assert plan.own


@pytest.mark.parametrize(
    ("supports", "num_paths", "expected"),
    [
        ((POOL[2],), 3, {"connector_1": "clone", "connector_2": "new", "router": "new"}),
        ((POOL[2], POOL[4]), 2, {"connector_1": "clone", "router": "new"}),
    ],
)
def test_another_number_of_paths_resets_the_router_and_the_last_connector(
    supports: tuple[SubPath, ...], num_paths: int, expected: dict[str, str]
) -> None:
    plan = child(multipath(*supports), num_paths=num_paths)
    assert plan.paths[:2] == (MAIN, POOL[2])
    assert len(plan.paths) == num_paths
    assert fates(plan) == expected


def test_a_place_that_changed_hands_begins_anew() -> None:
    settings = STILL.model_copy(update={"supports": SupportSettings(first="Vit~d")})
    plan = child(multipath(POOL[2], POOL[4]), settings=settings)
    assert [one.how for one in plan.supports] == ["forced", "kept"]
    assert fates(plan) == {"connector_1": "new", "connector_2": "clone", "router": "new"}


def test_a_new_structure_takes_the_best_path_s_values_and_nothing_trained() -> None:
    best, _ = multipath(POOL[2], POOL[4])
    best = best.model_copy(update={"hparams": best.hparams | {"opt_lr": 0.5}})
    plan = plan_multipath_child(
        None, [], main=MAIN, pool=POOL, needs=needs, space=SPACE, settings=STILL, rng=generator(1), best=best
    )
    assert (plan.hparams, plan.mu) == (best.hparams, best.mu)
    assert {one.how for one in plan.supports} == {"drawn"}
    assert set(fates(plan).values()) == {"new"}
    assert (plan.parent, plan.own) == (None, False)
    assert child(None).hparams == SPACE.defaults()


def test_the_number_of_paths_moves_like_any_value() -> None:
    settings = MultipathSettings(mutation=MutationSettings(forced=("hp:num_paths",), forbidden=("*",)))
    counts = [len(child(multipath(POOL[2]), seed=seed, settings=settings).paths) for seed in range(400)]
    assert set(counts) == {2, 3}
    assert abs(np.mean(counts) - 2.5) < 0.08


def test_plans_are_plain_data_and_follow_from_their_draws() -> None:
    free = MultipathSettings()
    plans = [child(multipath(POOL[2]), seed=seed, settings=free) for seed in range(12)]
    assert plans == [child(multipath(POOL[2]), seed=seed, settings=free) for seed in range(12)]
    stored = canonical.loads(canonical.dumps(plans[0].to_json()))
    assert stored["main"] == {"agent": "Vit~a", "number": 7}
    assert stored["supports"][0]["path"] == POOL[2].model_dump(mode="json")
    assert not any(one.why == "forced" for plan in plans for one in plan.decisions)


def test_the_main_path_is_drawn_anew_for_each_child() -> None:
    mains = [SubPath(agent="Vit~a", number=number) for number in (3, 9)]
    drawn = [draw_main(mains, generator(seed, "main")) for seed in range(400)]
    assert abs(np.mean([one.number == 9 for one in drawn]) - 0.5) < 0.08
    assert [draw_main(mains[::-1], generator(seed, "main")) for seed in range(400)] == drawn
    with pytest.raises(UsageError, match="singlepath"):
        draw_main([], generator(1))


# Informed draws: nobody is given up, success and likeness raise a weight, and without either all are alike

AGENTS = ["Vit~a", "Vit~b", "Vit~c"]
INFORMED = SamplerSettings(kind="informed")


def test_nothing_known_is_uniform() -> None:
    assert set(agent_weights(AGENTS, SamplerSettings(), Evidence(similarity={"Vit~a": 0.0})).values()) == {1.0}
    assert agent_weights(AGENTS, INFORMED, Evidence()) == pytest.approx(dict.fromkeys(AGENTS, 1 / 3))
    nobody = Evidence(similarity=dict.fromkeys(AGENTS, 0.0))
    assert set(agent_weights(AGENTS, INFORMED, nobody).values()) == {1.0}


def test_success_and_similarity_raise_a_weight_and_nobody_is_given_up() -> None:
    history = [(("Vit~a",), True), (("Vit~a", "Vit~b"), True), (("Vit~b", "Vit~c"), False), (("Vit~c",), False)]
    known = Evidence(records(history), {"Vit~a": 0.5, "Vit~b": 0.5, "Vit~c": 0.5})
    assert known.records == {"Vit~a": Record(2, 2), "Vit~b": Record(2, 1), "Vit~c": Record(2, 0)}
    weights = agent_weights(AGENTS, INFORMED, known)
    assert weights["Vit~a"] > weights["Vit~b"] > weights["Vit~c"] >= 0.25 / 3
    assert sum(weights.values()) == pytest.approx(1)
    # 3/4, 2/4 and 1/4, of which they share three quarters of the draws.
    assert weights["Vit~a"] == pytest.approx(0.25 / 3 + 0.75 / 2)
    nearer = agent_weights(AGENTS, INFORMED, Evidence(known.records, {**known.similarity, "Vit~c": 1.0}))
    assert nearer["Vit~c"] > weights["Vit~c"]


def test_a_probed_draw_is_that_of_parents() -> None:
    losses = {"Vit~a": 0.5, "Vit~b": 0.7}
    probed = SamplerSettings(kind="probed", explore=0.2, temperature=0.1)
    weights = agent_weights(AGENTS, probed, Evidence(losses=losses))
    raw = {"Vit~a": 1.0, "Vit~b": math.exp(-2), "Vit~c": math.exp(-1)}  # an unknown one is as good as the mean
    assert weights == pytest.approx({name: 0.2 / 3 + 0.8 * raw[name] / sum(raw.values()) for name in AGENTS})
    assert set(agent_weights(AGENTS, probed, Evidence()).values()) == {1.0}


def test_an_unknown_similarity_counts_as_the_usual_one() -> None:
    weights = agent_weights(AGENTS, INFORMED, Evidence(similarity={"Vit~a": 0.2, "Vit~b": 0.6}))
    assert weights["Vit~a"] < weights["Vit~c"] < weights["Vit~b"]
    with pytest.raises(UsageError, match="similarity"):
        agent_weights(AGENTS, INFORMED, Evidence(similarity={"Vit~a": 1.5}))


def test_paths_are_as_near_as_the_parameters_they_share() -> None:
    one, other = {"R:0": 80, "A:0": 10}, {"R:0": 80, "B:0": 30}
    assert component_similarity(one, other) == component_similarity(other, one) == 80 / 120
    assert component_similarity(one, one) == 1
    assert component_similarity(one, {"B:0": 5}) == 0
    assert component_similarity({}, {}) == 0


def test_draws_follow_their_weights() -> None:
    rng = generator(1, "draws")
    weights = {"a": 1.0, "b": 3.0}
    drawn = [draw(["a", "b", "b"], weights, rng) for _ in range(7_000)]
    shares = [sum(place == index for place, _ in drawn) / len(drawn) for index in range(3)]
    assert shares == pytest.approx([1 / 7, 3 / 7, 3 / 7], abs=0.02)
    assert all(probability == pytest.approx((1 / 7, 3 / 7, 3 / 7)[place]) for place, probability in drawn)
