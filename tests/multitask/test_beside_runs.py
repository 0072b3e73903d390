"""A store that holds a system is read by the commands for runs as if it held none."""

from __future__ import annotations

from pathlib import Path

import pytest

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.system import System
from evodevo.runs.archive import Archive
from evodevo.storage import Store


def test_a_system_is_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Store.open(folder) as store:
        system = System.create(store, "letters")
    with Archive(folder) as archive:
        assert archive.runs() == []
        with pytest.raises(NotFoundError, match="holds no run yet"):
            archive.run("last")
        with pytest.raises(UsageError, match="is a multitask system"):
            archive.run(system.row.id)
