"""Facts of evaluations that evodevo did not write are damage of a named row, also where they were sealed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode, StoreDamagedError
from evodevo.multitask.recorded import ACCURACY, CHILD, TEST, deciding, weights_of
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Evaluation, Score, Store
from evodevo.storage.base import EvaluationRow
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of


def row(extra: dict[str, Any]) -> EvaluationRow:
    """The result of a child with these facts."""
    return EvaluationRow(
        "e7", "r1", "i1", CHILD, 0, 1, "done", None, "", {}, {}, extra, 1.0, {}, 1, "2026-11-24", "2026-11-24"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"fate": ["kept"]},
        {"fate": "famous"},
        {"fate": None},
        {"evals": 0.5},
        {"evals": [0.5, "much"]},
        {"evals": [True]},
        {"evals": {"a": 1}},
        {"answer": 3},
    ],
)
def test_what_was_decided_about_a_path_has_one_shape(wrong: dict[str, Any]) -> None:
    good = {"fate": "kept", "evals": [0.25, None], "bar": None, "answer": {"test": 1}}
    assert deciding([row(good)]) is not None
    with pytest.raises(StoreDamagedError, match="evaluation e7"):
        deciding([row({**good, **wrong})])
    for name in ("fate", "evals"):
        with pytest.raises(StoreDamagedError, match="evaluation e7"):
            deciding([row({key: fact for key, fact in good.items() if key != name})])


@pytest.mark.parametrize("wrong", [3, "0.5", [0.5, "x"], [[0.5]], {"a": 0.5}, [None]])
def test_weights_are_numbers(wrong: Any) -> None:
    assert weights_of(row({"weights": [1, 0.5]})) == (1.0, 0.5)
    assert weights_of(row({"weights": None})) is None
    assert weights_of(row({})) is None
    with pytest.raises(StoreDamagedError, match="evaluation e7 has a 'weights'"):
        weights_of(row({"weights": wrong}))


@pytest.mark.slow
def test_a_graph_names_the_row_with_other_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "runs") as store:
        system = new_system(store)
        system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3))
        system.run(tasks_of(system), 2, executor_of(PathTrainer(store)))
        (offer,) = (one for one in system.view().offers.values() if one.path.kind == "multipath")
        lease = store.acquire(system.agent(offer.path.agent).id)
        facts = {"weights": [0.5, {"b": 1}]}
        measured = Evaluation(offer.id, TEST, 0, scores={ACCURACY: Score(0.5)}, extra=facts)
        store.finish_evaluation(lease, measured)
        store.release(lease)
        name = System.open(store, "zoo").row.id
    assert run(["extend", "graph", name, "--store", str(tmp_path / "runs")]) == ExitCode.STORE_DAMAGED
    assert f"evaluation {measured.id} has a 'weights'" in capsys.readouterr().err
