"""Documents on the disk are those that were added."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evodevo.errors import DataError, DiskFullError
from evodevo.tasks.spooled import Pieces, Spool


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(st.binary(max_size=30), max_size=12), limit=st.integers(0, 120), data=st.data())
def test_it_is_the_sequence_of_what_was_added(
    tmp_path: Path, documents: list[bytes], limit: int, data: st.DataObject
) -> None:
    spool = Spool(tmp_path, limit)
    for number, document in enumerate(documents):
        spool.append(document)
        assert spool[number] == document, "also while more are added"
    assert list(spool) == documents
    assert len(spool) == len(documents)
    assert spool.is_on_disk == (sum(map(len, documents)) > limit)
    assert list(spool[1:]) == documents[1:]
    chosen = data.draw(st.lists(st.integers(0, len(documents) - 1))) if documents else []
    found = spool.chosen(chosen)
    assert list(found) == [documents[index] for index in chosen]
    assert isinstance(found, tuple) is not spool.is_on_disk
    places = [(index, 1, 3) for index in chosen] + [(index, 0, None) for index in chosen]
    assert list(Pieces(spool, places)) == [documents[i][1:3] for i in chosen] + [documents[i] for i in chosen]
    assert list(tmp_path.iterdir()) == [], "the file has no name"


def test_an_index_beyond_the_end_is_an_error_and_a_negative_one_counts_from_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 0)
    for document in (b"a", b"bc"):
        spool.append(document)
    assert spool[-1] == b"bc"
    with pytest.raises(IndexError):
        spool[2]


def test_without_a_folder_all_stays_in_memory() -> None:
    spool = Spool(None, 0)
    spool.append(b"abc")
    assert not spool.is_on_disk
    assert spool[0] == b"abc"


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="XDG_CACHE_HOME"):
        Spool(tmp_path / "file", 0).append(b"abc")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DiskFullError, match="max_bytes"):
        Spool(tmp_path, 0).append(b"abc")
