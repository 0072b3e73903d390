"""The worth of operations: counted by hand on a recorded family, and read from a real search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from evodevo.backbone.space import BackboneSpace
from evodevo.cli.application import run as command
from evodevo.randomness import generator
from evodevo.runs.archive import Archive, Run
from evodevo.runs.operations import DEFINITION, rank_changes, variation_record
from evodevo.runs.report.operations import change_text
from evodevo.runs.resolve import resolve
from evodevo.search.members import BASELINE
from evodevo.search.problem import Outcome
from evodevo.search.record import to_evaluation
from evodevo.storage import NewIndividual, Store, individual_id

# Name -> generation, parents, operations of its mutation, (quality, cache) or the reason of its failure.
FAMILY: dict[str, tuple[int, str, list[str] | None, tuple[float, float] | str]] = {
    "best": (-1, "", None, (0.1, 0.1)),  # a baseline: it ranks nobody
    "a": (0, "", None, (1.0, 4.0)),
    "b": (0, "", None, (3.0, 5.0)),
    "c": (0, "", None, (4.0, 6.0)),
    "d": (1, "bc", ["connect feature"], (0.5, 5.5)),
    "e": (1, "a", ["swap", "connect feature", "swap"], (5.0, 7.0)),
    "f": (1, "ab", [], (3.5, 5.2)),
    "g": (2, "de", ["swap"], "crash"),
    "h": (2, "d", None, (0.4, 3.0)),
}


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    settings = resolve("backbone.demo", overrides={})
    space, rng = BackboneSpace(settings.space), generator(0)
    folder = tmp_path_factory.mktemp("family") / "runs"
    with Store.open(folder) as store:
        run_id = store.create_run("evolve", "backbone.demo", settings.model_dump(mode="json"), settings.study.seed)
        with Archive(folder) as archive:
            seed = archive.run(run_id).evaluation_seed(0)
        lease = store.acquire(run_id)
        ids = {name: individual_id(run_id, f"x/{name}") for name in FAMILY}
        for slot, (name, (generation, parents, operations, scores)) in enumerate(FAMILY.items()):
            genome = space.sample(rng)
            details: dict[str, Any] = {"name": name}
            if operations is not None:
                details |= {"operations": operations, "draws": 1 + slot % 2}
            one = NewIndividual(
                id=ids[name],
                birth=f"x/{name}",
                generation=generation,
                slot=slot,
                genome_envelope=space.to_json(genome),
                genome_hash=space.hash(genome),
                operation=BASELINE if generation < 0 else "crossover+mutation" if parents else "sample",
                details=details,
                parents=tuple(ids[parent] for parent in parents),
            )
            store.add_individuals(lease, [one])
            numbers = {} if isinstance(scores, str) else dict(zip(("quality", "cache"), scores, strict=True))
            outcome = Outcome(reason=scores if isinstance(scores, str) else None, scores=numbers)
            store.finish_evaluation(lease, to_evaluation(one.id, "none", seed, 1, outcome))
        store.finish_run(lease, "finished")
    with Archive(folder) as archive:
        yield archive.run(run_id)


def test_rank_changes_are_those_counted_by_hand(family: Run) -> None:
    names = {one.id: str(one.row.details["name"]) for one in family.individuals()}
    changes = {names[one]: change for one, change in rank_changes(family, family.individuals()).items()}
    # Generation 1 ranks a b c d e f: a and d are the front; b behind them; then f, c, e.
    # d: (b 1 + c 3) / 2 - 0. e: a 0 - 4. f: (a 0 + b 1) / 2 - 2.
    # Generation 2 has h before a and d, so that all others are one rank further behind: a d 1, b 2, f 3, c 4, e 5.
    # g failed and stands behind e, at 6: (d 1 + e 5) / 2 - 6. h: d 1 - 0.
    assert changes == {"d": 2.0, "e": -4.0, "f": -1.5, "g": -3.0, "h": 1.0}


def test_the_table_has_every_operation_once_per_child(family: Run) -> None:
    record = variation_record(family)
    rows = {row.name: row for row in record.operations}
    assert list(rows) == ["connect feature", "swap"]
    assert record.recorded == 4
    assert record.changed == 0.75, "the mutation of f changed nothing"
    connected, swapped = rows["connect feature"], rows["swap"]
    assert (connected.children, connected.share, connected.failed) == (2, 0.5, 0)
    assert (connected.change, connected.better) == (-1.0, 0.5)
    assert connected.error == pytest.approx(3.0)  # of 2 and -4: deviation 18 ** 0.5, over the root of 2
    assert (swapped.children, swapped.change, swapped.better, swapped.failed) == (2, -3.5, 0.0, 1)
    (birth,) = record.births
    assert (birth.name, birth.children, birth.share, birth.failed) == ("crossover+mutation", 5, 1.0, 1)
    assert birth.change == pytest.approx((2.0 - 4.0 - 1.5 - 3.0 + 1.0) / 5)
    assert change_text(connected) == "-1.00 ± 3.00"
    assert record.redrawn == 0.5
    assert record.draws == 1.5
    assert record.to_json()["definition"] == DEFINITION


def test_a_real_search_says_what_its_operations_were(run: Run) -> None:
    record = variation_record(run)
    children = [one for one in run.individuals() if one.parents]
    assert record.recorded == len(children) == sum(row.children for row in record.births)
    assert record.changed == 1.0
    assert record.operations
    html = run.slice.report(run)
    assert 'id="operations"' in html
    for row in record.operations:
        assert f"<code>{row.name}</code>" in html


def test_a_run_without_the_record_shows_its_births_alone(recorded: Any) -> None:
    run = recorded({name: {0: {"quality": 1.0, "cache": 1.0}} for name in "ab"})
    record = variation_record(run)
    assert (record.recorded, record.changed, record.operations, record.births) == (0, None, (), ())
    assert 'id="operations"' not in run.slice.report(run)


def test_show_has_the_tables(run: Run, small: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["show", run.id, "--store", str(small.store), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["operations"] == json.loads(json.dumps(variation_record(run).to_json()))
    assert document["motifs"]["generation"] == 1
    assert command(["show", run.id, "--store", str(small.store)]) == 0
    shown = capsys.readouterr().out
    assert "rank change" in shown
    assert "by chance" in shown
    child = next(one for one in run.individuals() if one.row.details.get("operations"))
    assert command(["show", child.id, "--store", str(small.store)]) == 0
    assert f"mutation    {', '.join(child.row.details['operations'])}" in capsys.readouterr().out
    listed = {one["id"]: one.get("operations") for one in document["individuals"]}
    assert listed == {one.id: one.row.details.get("operations") for one in [*run.baselines(), *run.individuals()]}
