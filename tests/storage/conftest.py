"""One PostgreSQL server for all tests of a session that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evodevo.testing.stores import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    if reason := postgres.reason_to_skip():
        pytest.skip(reason)
    with postgres.server() as server:
        yield server


@pytest.fixture
def new_address(postgres_server: postgres.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Addresses of new, empty schemas; blobs lie below the test's folder."""
    monkeypatch.setenv("EVODEVO_BLOBS", str(tmp_path / "shared blobs"))
    return lambda: postgres_server.address(postgres_server.schema())


@pytest.fixture
def address(new_address: Callable[[], str]) -> str:
    return new_address()
