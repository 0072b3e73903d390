"""``evodevo extend status --transfer``: the probes of each agent, as they are recorded, in words and as a document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.multitask.transfer.table import TransferRow, TransferTable, record, recorded
from evodevo.storage import Store
from evodevo.testing.multitask.paths import new_system

TABLE = TransferTable(
    view=3,
    samples=1234,
    prior=1.0986,
    rows=(
        TransferRow(path="VitTiny~b/4", loss=0.4321, accuracy=0.8765, width=24, seconds=1.375),
        TransferRow(path="VitTiny~root_model~random_init/0", loss=1.2046, accuracy=0.3333, width=1032, seconds=0.05),
    ),
)
FAILED = TransferTable(view=3, failed="no memory\nleft")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of three agents one has probes, those of one failed, and one has none."""
    with Store.open(tmp_path / "runs") as opened:
        system = new_system(opened, ("a", "b", "c"))
        for task, table in (("a", TABLE), ("b", FAILED)):
            agent = system.agent(f"VitTiny~{task}")
            lease = opened.acquire(agent.id)
            record(opened, lease, agent, table)
            opened.release(lease)
    return tmp_path / "runs"


def said(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    assert run(["extend", "status", "zoo", "--transfer", *more, "--store", str(store)]) == ExitCode.SUCCESS
    return capsys.readouterr().out


def test_the_table_in_words_has_the_recorded_numbers_in_the_columns_that_name_them(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(store, capsys).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("VitTiny~a: "))
    assert lines[begin] == (
        "VitTiny~a: linear probes on 1,234 training samples; the frequencies of the classes alone have a log-loss of"
        " 1.099 nats"
    )
    assert [line.split() for line in lines[begin + 1 : begin + 4]] == [
        ["path", "log-loss", "accuracy", "numbers", "time"],
        ["VitTiny~b/4", "0.432", "87.6", "24", "1.38", "s"],
        ["VitTiny~root_model~random_init/0", "1.205", "33.3", "1032", "0.05", "s"],
    ]
    assert "VitTiny~b: its probes failed, and parents are drawn uniformly: no memory left" in lines
    assert "VitTiny~c: no probes; it has had no choice between paths, or draws them uniformly." in lines
    assert not any(line.startswith("VitTiny~root_model") and ":" in line for line in lines), "a root probes nothing"
    alone = said(store, capsys, "--task", "a")
    assert "VitTiny~a: linear" in alone
    assert "VitTiny~c" not in alone


def test_the_document_is_the_record(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(store, capsys, "--json"))
    assert (document["schema"], document["system"]) == ("evodevo.extend.transfer/1", "zoo")
    assert list(document["agents"]) == ["VitTiny~a", "VitTiny~b", "VitTiny~c"]
    assert document["agents"]["VitTiny~c"] is None
    assert TransferTable.model_validate_json(json.dumps(document["agents"]["VitTiny~a"])) == TABLE
    assert document["agents"]["VitTiny~b"]["failed"] == FAILED.failed
    with Store.open(store, "ro") as opened:
        found = opened.systems.find_system("zoo")
        for agent in opened.systems.agents(found.id):
            if not agent.settings["root"]:
                kept = recorded(opened, agent.id)
                assert document["agents"][agent.name] == (None if kept is None else kept.model_dump(mode="json"))
