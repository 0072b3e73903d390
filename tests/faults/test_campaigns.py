"""Campaigns of faults: the frame counts what broke and says how to replay it; each campaign runs and keeps its word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults"


def run(script: Path, folder: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, words and document of a campaign."""
    path = folder / "result.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(FAULTS), "TMPDIR": str(folder)}
    command = [sys.executable, str(script), "--json", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr, json.loads(path.read_text()) if path.exists() else {}


MIXED = """
import os, signal, subprocess, time
from campaign import Campaign, Case

def prepare(folder):
    (folder / "number").write_text("7")

def raises(case):
    raise ValueError("seven")

def leaves(case):
    subprocess.Popen(["sleep", "60"], start_new_session=True)

def skips(case):
    case.skipped = "not here"

KINDS = (
    lambda case: case.promise("a number is drawn", ""),
    lambda case: case.promise("nothing is lost", "this one"),
    raises,
    lambda case: time.sleep(60),
    leaves,
    lambda case: os.kill(os.getpid(), signal.SIGKILL),
    skips,
)

def case(case: Case) -> None:
    assert (case.shared / "number").read_text() == "7" and not list(case.folder.iterdir())
    case.note(drawn=case.rng.random())
    case.count("kind", str(case.number))
    KINDS[case.number](case)

if __name__ == "__main__":
    Campaign("mixed", case, prepare, seconds=SECONDS).main("help", cases=len(KINDS))
"""


@pytest.mark.slow
def test_the_frame_counts_every_way_in_which_a_case_can_break(tmp_path: Path) -> None:
    script = tmp_path / "mixed.py"
    script.write_text(MIXED.replace("SECONDS", "15"))
    code, words, found = run(script, tmp_path, "--seed", "5", "--workers", "7")
    assert code == 1, words
    broken = {case["number"]: [promise for promise, _ in case["broken"]] for case in found["every_case"]}
    assert broken == {
        0: [],
        1: ["nothing is lost"],
        2: ["no case raises"],
        3: ["each case ends in time"],
        4: ["no process is left"],
        5: ["no case raises"],
        6: [],
    }
    assert (found["cases"], found["skipped"], found["broken"]) == (6, 1, 5)
    assert f"| mixed | 6 | 5 | {found['kept']} | 5 |" in words
    assert all(f"--seed 5 --only {number}" in words for number in range(1, 6))
    assert "sleep 60" in words
    assert "ValueError: seven" in words
    assert [path.name for path in tmp_path.glob("mixed-*")] == []
    # A case that is replayed alone has the same chance.
    again = run(script, tmp_path, "--seed", "5", "--only", "1")[2]["every_case"]
    assert again == [case for case in found["every_case"] if case["number"] == 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cases"), [("damage", 7), ("damage_systems", 6), ("shapes", 6), ("misbehaviour", 1), ("files", 12)]
)
def test_a_campaign_keeps_its_word(tmp_path: Path, name: str, cases: int) -> None:
    code, words, found = run(FAULTS / f"{name}.py", tmp_path, "--cases", str(cases), "--seed", "1")
    assert code == 0, words
    assert found["broken"] == 0
    assert found["cases"] == cases, words
    assert found["kept"] > 3 * cases


@pytest.mark.slow
def test_what_is_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """A search and agents; the other kinds of work, and many more moments: the campaign itself."""
    code, words, found = run(FAULTS / "kill.py", tmp_path, "--only", "0", "--only", "3", "--workers", "2")
    assert code == 0, words
    assert {case["facts"]["kind"] for case in found["every_case"]} == {"search", "agents"}
    assert all("the same future" in case["kept"] for case in found["every_case"])
    assert any(column == "kills" for case in found["every_case"] for _, column in case["counts"]), "nothing was killed"


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    """A search, a pack and a report on a disk that is full, or with a limit to the size of files."""
    code, words, found = run(FAULTS / "disk.py", tmp_path, "--only", "0", "--only", "2", "--only", "4")
    assert code == 0, words
    assert [case["facts"]["kind"] for case in found["every_case"]] == ["search", "pack", "report"]
    assert {case["facts"]["code"] for case in found["every_case"]} <= {0, 8}


@pytest.mark.slow
def test_a_long_run_is_measured_from_its_marks(tmp_path: Path) -> None:
    """With 300 evaluations its times say nothing, and only what does not depend on the machine is judged."""
    _, words, found = run(FAULTS / "long_run.py", tmp_path, "--evaluations", "300")
    (case,) = found["every_case"]
    assert {promise for promise, _ in case["broken"]} <= {"readers take at most 1 s"}, words
    assert {"every evaluation is recorded once", "the store has no damage"} <= set(case["kept"])
    facts = case["facts"]
    assert facts["evaluations"] == 300
    assert facts["milliseconds_each"]["ratio"] == pytest.approx(
        facts["milliseconds_each"]["last"] / facts["milliseconds_each"]["first"], rel=0.02
    )
    assert facts["memory_ratio"] >= 1
