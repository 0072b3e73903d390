"""``evodevo repair``: it finds damage, mends what can be mended, and says what is to be done again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.storage import Evaluation, NewIndividual, Score, Store, individual_id


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, str, str]:
    """A store with one evaluation whose blob was changed on disk: (folder, digest, id of the evaluation)."""
    with Store.open(tmp_path / "runs") as store:
        run_id = store.create_run("evolve", "backbone.demo", {}, 1)
        lease = store.acquire(run_id)
        who = individual_id(run_id, "0/0")
        store.add_individuals(lease, [NewIndividual(who, "0/0", 0, 0, {"space": "s"}, "0" * 64, "initial")])
        digest = store.blobs.put_bytes(b"weights")
        outcome = Evaluation(who, "tokens=1", 1, scores={"quality": Score(1.0)}, blobs={"weights": digest})
        store.finish_evaluation(lease, outcome)
        store.finish_run(lease, "finished")
        path = store.blobs.path(digest)
    path.chmod(0o600)
    path.write_bytes(b"weighty")
    return tmp_path / "runs", digest, outcome.id


def repair(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["repair", "--store", str(folder), "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_checking_changes_nothing(damaged: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, digest, _ = damaged
    for _ in range(2):
        code, seen = repair(capsys, folder, "--check")
        assert code == ExitCode.STORE_DAMAGED
        assert seen["schema"] == "evodevo.repair/1"
        assert [problem["subject"] for problem in seen["problems"]] == [digest]


def test_repairing_sets_aside_and_marks(damaged: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, digest, evaluation = damaged
    code, seen = repair(capsys, folder)
    assert code == ExitCode.SUCCESS
    assert seen["quarantined_blobs"] == [digest]
    assert seen["evaluations_to_redo"] == [evaluation]
    assert seen["problems"] == []
    with Store.open(folder, "ro") as store:
        (row,) = store.evaluations()
    assert (row.state, row.reason) == ("failed", "lost")
    code, seen = repair(capsys, folder, "--check")
    assert code == ExitCode.SUCCESS


def test_people_see_what_was_done(damaged: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, digest, evaluation = damaged
    assert run(["repair", "--store", str(folder)]) == ExitCode.SUCCESS
    seen = capsys.readouterr()
    assert digest in seen.out
    assert evaluation in seen.out
    assert "evodevo resume" in seen.err
