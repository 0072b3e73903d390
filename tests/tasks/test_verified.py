"""A file is hashed once by a worker, and again when it has changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.execution.base import Report
from evodevo.execution.environment import WORKER_FOLDER, worker_environment
from evodevo.execution.forked import ForkedExecutor
from evodevo.tasks import verified
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache
from evodevo.testing.executors import evaluate

KEY = "ab" * 32
REAL = hashlib.file_digest


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose content was read."""
    names: list[str] = []

    def count(file: Any, kind: str) -> Any:
        names.append(Path(file.name).name)
        return REAL(file, kind)

    monkeypatch.setattr(verified.hashlib, "file_digest", count)
    monkeypatch.setattr(verified, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(verified, "_known", {})
    monkeypatch.delenv(WORKER_FOLDER, raising=False)
    return names


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, hashed: list[str]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert verified.file_digest(path) == verified.file_digest(path) == hashlib.sha256(b"one").hexdigest()
    assert hashed == ["a"]
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))  # a time of modification that anyone may set; that of the change says so
    assert verified.file_digest(path) == hashlib.sha256(b"two").hexdigest()
    other = tmp_path / "b"
    other.write_bytes(b"six")
    os.replace(other, path)
    assert verified.file_digest(path) == hashlib.sha256(b"six").hexdigest()
    assert hashed == ["a", "a", "a"]


def test_what_has_just_changed_is_not_noted(tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "SETTLED_SECONDS", 60.0)
    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert verified.file_digest(path) == verified.file_digest(path)
    assert hashed == ["a", "a"]


def test_a_note_that_was_cut_short_is_none(tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER_FOLDER, str(tmp_path))
    path = tmp_path / "a"
    path.write_bytes(b"one")
    wanted = verified.file_digest(path)
    notes = tmp_path / "digests"
    notes.write_text(notes.read_text()[:40])
    monkeypatch.setattr(verified, "_known", {})
    assert verified.file_digest(path) == wanted
    assert hashed == ["a", "a"]


def test_the_evaluations_of_a_worker_hash_prepared_data_once(tmp_path: Path, hashed: list[str]) -> None:
    TokenCache(tmp_path).put(KEY, CachedTokens({"tokens_train": np.arange(100, dtype=np.uint16)}, b"", {}))
    (array,) = tmp_path.rglob("tokens_train.npy")

    def read(payload: bytes, report: Report) -> bytes:
        verified._known.clear()
        hashed.clear()
        found = TokenCache(tmp_path).get(KEY)
        return f"{found is not None} {len(hashed)}".encode()

    with ForkedExecutor() as executor:
        executor.adopt({"read": read})
        assert evaluate(executor, "read", b"").payload == b"True 1"
        assert evaluate(executor, "read", b"").payload == b"True 0"
        content = bytearray(array.read_bytes())
        content[-1] ^= 1
        array.write_bytes(content)
        assert evaluate(executor, "read", b"").payload == b"False 1", "damage is seen"
    with ForkedExecutor() as executor:
        executor.adopt({"read": read})
        assert evaluate(executor, "read", b"").payload == b"False 1", "another worker has its own notes"


def test_workers_do_not_inherit_the_folder_of_another() -> None:
    assert WORKER_FOLDER not in worker_environment({WORKER_FOLDER: "/there"}, threads=1)
