"""``evodevo extend import`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.multitask.system import System
from evodevo.storage import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = str(tmp_path / "runs")
    assert run(["extend", "create", "zoo", "--class", "VitTiny", "--store", folder]) == ExitCode.SUCCESS
    return folder


@pytest.mark.slow
def test_a_network_of_another_store_is_imported_and_people_read_what_it_is_made_of(
    store: str, small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["extend", "import", "zoo", "reader", "--run", "last", "--from", str(small.store), "--store", store]
    capsys.readouterr()
    assert run([*asked, "--json"]) == ExitCode.SUCCESS
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["agent"], told["reads"]) == (
        "evodevo.extend.import/1",
        "Import~reader",
        ["tokens:bytes"],
    )
    with Store.open(store) as opened:
        known = System.open(opened, "zoo").view().offers["Import~reader"]
        assert told["components"] == {part.role: part.digest for part in known.components}
        assert told["parameters"] == known.parameters
    assert run(asked) == ExitCode.USAGE
    assert "import 'reader' already" in capsys.readouterr().err
    assert run(["extend", "create", "ark", "--class", "VitTiny", "--store", store]) == ExitCode.SUCCESS
    assert run([*asked[:2], "ark", *asked[3:]]) == ExitCode.SUCCESS
    out, err = capsys.readouterr()
    assert "agent Import~reader" in out
    assert "reads tokens:bytes" in out
    assert "--class Net" in err


@pytest.mark.slow
def test_what_is_wrong_ends_with_its_exit_code_and_leaves_nothing(
    store: str, small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, code in (
        ([], ExitCode.USAGE),
        (["--run", "last"], ExitCode.NOT_FOUND),
        (["--run", "nix", "--from", str(small.store)], ExitCode.NOT_FOUND),
        (["--run", "last", "--from", "nowhere"], ExitCode.NOT_FOUND),
    ):
        capsys.readouterr()
        assert run(["extend", "import", "zoo", "one", *given, "--store", store]) == code
        assert capsys.readouterr().err.count("evodevo:") == 1
    with Store.open(store) as opened:
        assert len(System.open(opened, "zoo").agents()) == 1
