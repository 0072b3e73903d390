"""A store on disk, for the tests of systems that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evodevo.storage import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") as opened:
        yield opened
