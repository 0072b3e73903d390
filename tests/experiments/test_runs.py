"""Experiments: every arm is trained, a kill costs nothing, and the table says what the trainings said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run as command
from evodevo.errors import UsageError
from evodevo.experiments.comparison import ComparisonRow, compare_arms
from evodevo.experiments.recipe import Comparison, ExperimentSettings, PaperTable
from evodevo.experiments.report.tables import curves, groups, sweeps
from evodevo.experiments.trials import FixedTrials, Variant
from evodevo.h_model.network import HModelNetwork
from evodevo.runs.archive import Archive, Run
from evodevo.runs.evolve import resume
from evodevo.runs.recipe import RECIPES, Recipe, by_size
from evodevo.runs.train import experiment, train
from evodevo.search.problem import Outcome
from evodevo.search.record import to_evaluation
from evodevo.storage import NewIndividual, Store, individual_id
from evodevo.testing.small_networks import STRUCTURE, h_model, settings, transformer
from fixtures.evaluations import Killed

NORMS = {"before": {"core": 1.0}, "after": {"core": 0.5}}
INSIDE = {"inside": {"depth used": 1.5, "paths": 3.0}, "gradient_norms": NORMS}
SERIAL: dict[str, Any] = {"execution": {"executor": "serial"}}
PAPER = PaperTable(source="somewhere", columns=("a", "b"), rows=(("x", "<b>1</b>"),), caveats=("It was another time.",))


def plan(arm: Any, **more: Any) -> Variant:
    values = {"name": arm.name, "role": arm.role, "network": arm.network}
    return Variant(**{**values, **more})


def made(size: Any) -> ExperimentSettings:
    doubled = HModelNetwork(structure=STRUCTURE.model_copy(update={"alpha": 2.0}))
    arms = (
        plan(h_model(), role="h_model"),
        plan(transformer(), role="transformer"),
        plan(h_model(), name="alpha", cell={"alpha": 1.0}),
        plan(h_model(network=doubled), name="alpha", cell={"alpha": 2.0}),
    )
    comparison = Comparison(
        title="tiny", arms=arms, learning_rates=(1e-3, 1e-2), seeds=2, paper=(PAPER,), caveats=("It is tiny.",)
    )
    probes = ({"name": "m = 1", "inference": {"mode": "target_topm", "m": 1}},)
    changes = {"probes": probes, "trace_samples": 2, "training": {"budget": {"steps": 3}}, "curve_points": 2}
    return ExperimentSettings(experiment=comparison, evaluation=settings(changes))


@pytest.fixture(scope="module", autouse=True)
def _recipe() -> Iterator[None]:
    RECIPES.add("h_model.testing", Recipe("h_model.testing", "for tests", ("train",), by_size(made)))
    yield
    del RECIPES._rows["h_model.testing"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiment") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: INSIDE)
        experiment("h_model.testing", overrides=SERIAL, store=folder).archive.close()
    return folder


@pytest.fixture
def run(store: Path) -> Iterator[Run]:
    with Archive(store) as archive:
        yield archive.runs()[0]


@pytest.mark.slow
def test_every_arm_rate_and_seed_is_trained_and_twins_once(run: Run) -> None:
    assert (run.kind, run.state, run.recipe, run.is_experiment) == ("train", "finished", "h_model.testing", True)
    individuals = run.individuals()
    assert len({one.title for one in individuals}) == len(individuals) == 16
    twins = [one for one in individuals if "same_as" in one.fact]
    assert [one.genome.cell for one in twins] == [{"alpha": 1.0}] * 4, "alpha 1 is what the first arm trains"
    assert len({tuple(one.curve()) for one in individuals if one not in twins}) == 12
    plan = next(event.payload for event in run.events() if event.type == "experiment.plan")
    assert plan["trainings"] == 12
    assert plan["expected_seconds"] is None, "to measure would take more than a twentieth of so few steps"


def test_the_table_is_that_of_the_trainings(run: Run) -> None:
    table = compare_arms(run)
    assert [row.group for row in table.rows] == ["H-Model", "Tr(I+H+O)", "alpha, alpha 1", "alpha, alpha 2"]
    row = table.rows[0]
    members = [one for one in run.individuals() if one.genome.name == "H-Model"]
    accuracy = {
        rate: sum(o.fact["validation"]["accuracy"] for o in members if o.genome.learning_rate == rate) / 2
        for rate in (1e-3, 1e-2)
    }
    assert row.rates == pytest.approx(accuracy)
    assert accuracy[row.learning_rate] == max(accuracy.values())
    assert row.validation.mean == pytest.approx(max(accuracy.values()))
    assert row.validation.count == 2
    twin = table.rows[2]
    assert (twin.validation, twin.test, twin.curves) == (row.validation, row.test, row.curves)
    assert row.probes["m = 1"][1].mean < row.executed_flops.mean  # type: ignore[union-attr]
    assert table.rows[1].probes == {}
    assert table.budgets["steps"] == 3
    assert table.budgets["flops"] == pytest.approx(table.rows[1].training_flops.mean)  # type: ignore[union-attr]
    assert set(table.baselines) == {"validation", "test"}


def test_arms_are_compared_with_the_reference_on_the_same_samples(run: Run) -> None:
    table = compare_arms(run)
    assert table.reference == "H-Model"
    first, second, twin, _ = table.rows
    assert first.difference is None
    assert (second.difference.seeds, second.difference.samples) == (2, 40)
    assert second.difference.mean == pytest.approx(second.test.mean - first.test.mean)  # type: ignore[union-attr]
    assert second.difference.low <= second.difference.mean <= second.difference.high
    assert (twin.difference.mean, twin.difference.low, twin.difference.high) == (0, 0, 0)
    assert first.peak_memory_bytes is not None
    assert first.epochs.mean == 24 / 400
    assert table.headlines == tuple(
        f"answer {metric}" for metric in ("accuracy", "auc", "f1_macro", "log_loss", "calibration_error")
    )


@pytest.mark.slow
def test_a_trained_arm_loads_and_is_trained_again(store: Path, run: Run) -> None:
    one = run.individuals()[0]
    assert sum(parameter.numel() for parameter in one.load().parameters()) == one.fact["parameters"]
    with pytest.raises(UsageError, match="predicts no tokens"):
        one.generate("x", 3)
    again = train(one.id, steps=5, seeds=2, overrides=SERIAL, store=store)
    with again.archive:
        assert again.is_experiment
        assert [other.parents for other in again.individuals()] == [(one.id,), (one.id,)]
        assert [other.fact["steps"] for other in again.individuals()] == [5, 5]
        assert {other.genome.learning_rate for other in again.individuals()} == {one.genome.learning_rate}
        assert again.settings.evaluation.training.checkpoint_every == 1


@pytest.mark.slow
def test_a_killed_experiment_goes_on_to_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evodevo.experiments.evaluate.look_inside", lambda *_: {})
    overrides = {**SERIAL, "experiment": {"learning_rates": [1e-2], "seeds": 1}}
    whole = experiment("h_model.testing", overrides=overrides, store=tmp_path / "whole")
    ended = []

    def die(kind: str, facts: Mapping[str, Any]) -> None:
        ended.append(kind)
        if ended.count("evaluated") == 2:
            raise Killed

    with pytest.raises(Killed):
        experiment("h_model.testing", overrides=overrides, store=tmp_path / "killed", listener=die)
    resumed = resume("last", store=tmp_path / "killed", listener=lambda kind, facts: ended.append(kind))
    with resumed.archive, whole.archive:
        assert ended.count("plan") == 1, "the time is measured once"
        assert ended.count("evaluated") == 4
        scores = [{one.title: one.scores for one in run.individuals()} for run in (resumed, whole)]
        assert scores[0] == scores[1]


def test_what_cannot_be_leaves_no_store(tmp_path: Path) -> None:
    for overrides, words in (
        ({"experiment": {"seeds": 0}}, "seeds"),
        ({"experiment": {"reference": "nobody"}}, "'nobody' is no arm"),
        ({"study": {"generations": 3}}, "one generation"),
        ({"evaluation": {"task_settings": {"nodse": 3}}}, "nodes"),
    ):
        with pytest.raises(UsageError, match=words):
            experiment("h_model.testing", overrides=overrides, store=tmp_path / "none")
        assert not (tmp_path / "none").exists()


def test_the_report_shows_everything_and_no_markup_of_others(run: Run) -> None:
    table = compare_arms(run)
    page = run.slice.report(run)
    for words in ("tiny", "It is tiny.", "somewhere", "It was another time.", "Tr(I+H+O)", "alpha 2", "evodevo trace ",
                  "in points more than H-Model", "answer log_loss", "peak memory"):  # fmt: skip
        assert words in page
    assert "<b>1</b>" not in page
    assert [chart.over for chart in curves(table)] == ["steps", "flops", "seconds", "steps"]
    assert [chart.over for chart in sweeps(table)] == ["alpha"]
    assert list(groups(table)) == ["hops"]
    listed = page.partition('id="trainings"')[2].partition("</section>")[0]
    assert sum(one.id in listed for one in run.individuals()) == 16
    assert listed.count("evodevo trace") == 12


@pytest.mark.slow
def test_the_commands_say_it(store: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, *_, other = run.individuals()
    where = ["--store", str(store)]
    for arguments, wanted in (
        (["status", run.id], ["finished"]),
        (["show", run.id], ["H-Model, lr 0.001, seed 0", "test accuracy in percent by hops", "answer auc",
                            "in points more than H-Model", "peak memory"]),
        (["show", one.id], ["Hidden layers of width 16: 2 transformer, run 2 times"]),
        (["front", run.id], ["lr 0."]),
        (["diff", one.id, other.id], ["network.structure.alpha"]),
        (["lineage", one.id], [one.id]),
        (["report", run.id, "-o", str(tmp_path / "page.html")], ["page.html"]),
    ):  # fmt: skip
        assert command([*arguments, *where]) == 0, arguments
        said = capsys.readouterr().out
        assert all(words in said for words in wanted), said
    assert command(["show", one.id, "--svg", str(tmp_path / "x.svg"), *where]) == 0
    assert "transformer" in (tmp_path / "x.svg").read_text()
    stack = next(other for other in run.individuals() if other.genome.role == "transformer")
    assert command(["show", stack.id, "--svg", str(tmp_path / "y.svg"), *where]) == 2
    assert "cannot be drawn" in capsys.readouterr().err
    found = {}
    for reading in (["show", one.id], ["front", run.id], ["diff", one.id, other.id], ["status"], ["show", run.id]):
        assert command([*reading, "--json", *where]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found
    rows = found["comparison"]["rows"]
    assert [row["arm"] for row in rows] == ["H-Model", "Tr(I+H+O)", "alpha", "alpha"]
    assert rows[0]["difference"] is None
    assert set(rows[1]["difference"]) == {"mean", "low", "high", "seeds", "samples"}


@pytest.mark.slow
def test_the_command_trains_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = [
        "--store",
        str(tmp_path),
        "--set",
        "execution.executor=serial",
        "--set",
        "experiment.learning_rates=[0.01]",
    ]
    assert command(["train", "h_model.testing", "--steps", "1", "--seeds", "1", *where]) == 0
    told = capsys.readouterr()
    assert "3 trainings, duration not measured with 1 worker" in told.err
    assert "at any time" in told.err
    assert "\nbest of " in told.out
    assert "printed in somewhere" not in told.out, "the end is one table"
    assert command(["show", "last", "--store", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "printed in somewhere" in told.out
    assert "test accuracy in percent by hops" in told.out
    assert command(["train", "h_model.tesing", *where]) == 2
    assert "h_model.testing" in capsys.readouterr().err
    assert command(["train", "0123abcd", "--size", "full", *where]) == 3
    assert "0123abcd" in capsys.readouterr().err


# Tables from numbers that were never trained


def recorded(tmp_path: Path, outcomes: Mapping[tuple[str, float, int], Outcome]) -> list[ComparisonRow]:
    """The rows of an experiment whose trainings (name, rate, seed) ended like this."""
    names = list(dict.fromkeys(name for name, _, _ in outcomes))
    rates = tuple(dict.fromkeys(rate for _, rate, _ in outcomes))
    seeds = 1 + max(seed for _, _, seed in outcomes)
    plans = tuple(plan(h_model(), name=name, options={"name": name}) for name in names)
    given = ExperimentSettings(
        experiment=Comparison(arms=plans, learning_rates=rates, seeds=seeds), evaluation=settings()
    )
    space = FixedTrials()
    with Store.open(tmp_path) as store:
        run_id = store.create_run("train", "h_model.testing", given.model_dump(mode="json"), 0)
        with Archive(tmp_path) as archive:
            seed = archive.run(run_id).evaluation_seed(0)
        lease = store.acquire(run_id)
        for slot, arm in enumerate(given.experiment.trainings()):
            birth = f"0/{slot}"
            identity = individual_id(run_id, birth)
            one = NewIndividual(identity, birth, 0, slot, space.to_json(arm), space.hash(arm), "arm")
            store.add_individuals(lease, [one])
            outcome = outcomes[arm.name, arm.learning_rate, arm.seed]
            store.finish_evaluation(lease, to_evaluation(identity, "none", seed, 1, outcome))
        store.finish_run(lease, "finished")
    with Archive(tmp_path) as archive:
        return list(compare_arms(archive.run(run_id)).rows)


def ended(accuracy: float, flops: float = 100.0, errors: tuple[float, ...] = ()) -> Outcome:
    """A training of ten steps that was measured at even shares of it."""
    measured = {"accuracy": accuracy, "outputs": {}, "groups": {}}
    steps = [10.0 * (place + 1) / len(errors) for place in range(len(errors))]
    series = {
        "validation_error": list(zip(steps, errors, strict=True)),
        "flops": [(step, flops * step / 10) for step in steps],
        "seconds": [(step, step) for step in steps],
    }
    extra = {"validation": measured, "test": measured, "steps": 10, "training_flops": flops, "training_seconds": 10.0}
    return Outcome(scores={"error": 1 - accuracy, "executed_flops": 1.0}, extra=extra, series=series)


def test_the_rate_is_chosen_by_its_mean_and_only_among_whole_ones(tmp_path: Path) -> None:
    (row,) = recorded(
        tmp_path,
        {
            ("a", 0.1, 0): ended(0.9),
            ("a", 0.1, 1): ended(0.5),
            ("a", 0.2, 0): ended(0.8),
            ("a", 0.2, 1): ended(0.7),
            ("a", 0.3, 0): ended(1.0),
            ("a", 0.3, 1): Outcome(reason="diverged"),
        },
    )
    assert row.learning_rate == 0.2
    assert (row.validation.low, row.validation.high) == (0.7, 0.8)
    assert row.validation.deviation == pytest.approx(0.1 / 2**0.5)
    assert row.missing == ("a, lr 0.3, seed 1: diverged",)


def test_equal_budgets_are_read_between_the_points(tmp_path: Path) -> None:
    cheap, dear = recorded(
        tmp_path,
        {
            ("cheap", 0.1, 0): ended(0.6, 100.0, (0.8, 0.4)),
            ("dear", 0.1, 0): ended(0.9, 400.0, (0.9, 0.7, 0.5, 0.1)),
        },
    )
    value = {name: spread.mean for name, spread in dear.at.items() if spread is not None}
    assert value["steps"] == pytest.approx(0.9)
    assert value["flops"] == pytest.approx(0.1), "at 100 of 400, its first point"
    assert cheap.at["flops"].mean == pytest.approx(0.6)  # type: ignore[union-attr]
    (row,) = recorded(tmp_path / "one", {("failed", 0.1, 0): Outcome(reason="timeout"), ("failed", 0.1, 1): ended(0.5)})
    assert row.validation is not None
    assert row.missing == ("failed, lr 0.1, seed 0: timeout",)


def test_rates_are_chosen_by_loss_arms_have_seeds_of_their_own_and_the_test_split_can_be_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evodevo.tasks.reasoning.pointer import PointerTask

    comparison = Comparison(
        arms=(plan(h_model(), seeds=2), plan(transformer())), learning_rates=(1e-5, 1e-2), chosen_by="loss"
    )
    changes = {"training": {"budget": {"steps": 3}}, "curve_points": 1, "test_samples": 0, "inspected": False}
    whole = ExperimentSettings(experiment=comparison, evaluation=settings({**changes, "objectives": ["loss"]}))
    monkeypatch.setitem(
        RECIPES._rows, "h_model.testing", Recipe("h_model.testing", "x", ("train",), by_size(lambda _: whole))
    )
    read: list[str] = []
    fetch = PointerTask.fetch

    def noted(task: PointerTask, split: Any, indices: Any) -> Any:
        read.append(split)
        return fetch(task, split, indices)

    monkeypatch.setattr(PointerTask, "fetch", noted)
    run = experiment("h_model.testing", overrides=SERIAL, store=tmp_path / "runs")
    with run.archive:
        table = compare_arms(run)
        assert [(row.name, len(row.trainings), row.test) for row in table.rows] == [
            ("H-Model", 2, None),
            ("Tr(I+H+O)", 1, None),
        ]
        for row in table.rows:
            assert row.learning_rate == min(row.rates, key=lambda rate: row.rates[rate])
            assert row.executed_flops is None
        assert set(table.baselines) == {"validation"}
        assert "test" not in read
        assert run.slice.report(run).startswith("<!")


def test_flops_that_count_must_be_counted() -> None:
    with pytest.raises(UsageError, match="inspected=false"):
        settings({"inspected": False})
    with pytest.raises(UsageError, match="inspected=false"):
        settings({"inspected": False, "objectives": ["loss"], "training": {"budget": {"steps": None, "flops": 1e9}}})
