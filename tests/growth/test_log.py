"""The log of a growth: written and read by one file, and others' are refused."""

from __future__ import annotations

import pytest

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.growth.edit_spec import Action, Edit
from evodevo.growth.log import FORMAT, Log, read_log, write_log
from evodevo.growth.spec import BirthSettings
from evodevo.module_zoo.modules.zoo import start_zoo


def test_what_is_written_is_read() -> None:
    start = start_zoo(16)[:2]
    gone = Action(operation="prune", modules=(start[0].id,))
    edit = Edit(event=1, action=gone, seed=2**64 - 1, module=start[0].id, before={start[0].id: start[0].genotype})
    log = Log(tuple(start), BirthSettings(inheritance="split", keep=0.5), (edit,))
    assert read_log(write_log(log)) == log


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff", "cannot be read"),
        (b"[]", "has the format 'None'"),
        (b'{"format": "evodevo.edits/2"}', "has the format 'evodevo.edits/2'"),
        (canonical.dumps({"format": FORMAT}).encode(), "cannot be read"),
        (canonical.dumps({"format": FORMAT, "start": [3], "birth": {}, "edits": []}).encode(), "cannot be read"),
        (canonical.dumps({"format": FORMAT, "start": [], "birth": {}, "edits": [{"event": 0}]}).encode(), "edit 1"),
    ],
)
def test_a_log_of_others(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_log(data)


def test_one_that_is_too_large_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_log(write_log(Log((), BirthSettings(), ())), most_bytes=10)
