"""What the tests of the commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.cli.application import run

if TYPE_CHECKING:
    from ..conftest import Small


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written into the cache of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(small: Small, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A reading command with ``--json``; gives its document."""

    def answer(*arguments: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run([*arguments, "--store", str(small.store), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert isinstance(document, dict)
        return document

    return answer
