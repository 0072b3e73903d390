"""Temporary folders: those of processes that have ended are removed, whatever else is there stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evodevo import scratch as folders
from evodevo.execution.base import Job
from evodevo.execution.family import descendants
from evodevo.execution.processes import ProcessExecutor
from evodevo.scratch import MARK, PREFIX, Scratch, hold, scratch, sweep
from evodevo.testing.executors import first_message, wait_until_gone

HOLDER = "import sys; from evodevo.scratch import *; {}; print('ready', flush=True); sys.stdin.read()"


@contextmanager
def process(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has run a line of code and waits until it is killed."""
    command = [sys.executable, "-c", HOLDER.format(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        try:
            assert started.stdout.readline() == b"ready\n"
            yield started
        finally:
            started.kill()


def dead(parent: Path) -> Path:
    """A folder, with something in it, that nobody has locked any more, as after a kill."""
    made = Scratch(parent)
    assert made._lock is not None
    os.close(made._lock)
    folder = Path(made.path)
    (folder / "deep").mkdir()
    (folder / "deep" / "left.txt").write_text("left")
    return folder


def test_the_folder_of_a_process_stays_while_it_lives_and_goes_after_its_kill(tmp_path: Path) -> None:
    with process(f"made = Scratch({str(tmp_path)!r})") as started:
        (folder,) = tmp_path.iterdir()
        assert sweep(tmp_path) == []
        assert folder.is_dir()
        started.kill()
        started.wait()
        assert sweep(tmp_path, dry_run=True) == [folder]
        assert folder.is_dir()
        assert sweep(tmp_path) == [folder]
        assert not folder.exists()


def test_it_stays_while_another_process_holds_it(tmp_path: Path) -> None:
    folder = dead(tmp_path)
    with process(f"hold({str(folder)!r})") as started:
        assert sweep(tmp_path) == []
        assert (folder / "deep" / "left.txt").exists()
        started.kill()
    assert sweep(tmp_path) == [folder]


def test_the_next_one_removes_it_and_spares_those_of_this_process(tmp_path: Path) -> None:
    folder = dead(tmp_path)
    with scratch(tmp_path) as first, scratch(tmp_path) as second:
        assert sorted(tmp_path.iterdir()) == sorted([first, second])
        assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def _without_mark(folder: Path) -> None:
    (folder / MARK).unlink()


def _other_mark(folder: Path) -> None:
    (folder / MARK).write_text("a user's own notes")


def _mark_is_a_link(folder: Path) -> None:
    (folder / MARK).rename(folder / "mark")
    (folder / MARK).symlink_to(folder / "mark")


def _mark_is_a_pipe(folder: Path) -> None:
    _without_mark(folder)
    os.mkfifo(folder / MARK)


def _mark_is_a_folder(folder: Path) -> None:
    _without_mark(folder)
    (folder / MARK).mkdir()


def _other_name(folder: Path) -> None:
    folder.rename(folder.with_name("evodevo-data"))


def _longer_name(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}.kept"))


def _behind_a_link(folder: Path) -> None:
    away = folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(away)


@pytest.mark.parametrize(
    "change",
    [
        _without_mark,
        _other_mark,
        _mark_is_a_link,
        _mark_is_a_pipe,
        _mark_is_a_folder,
        _other_name,
        _longer_name,
        _behind_a_link,
    ],
)
def test_what_is_not_certainly_ours_stays(tmp_path: Path, change: Callable[[Path], None]) -> None:
    change(dead(tmp_path))
    assert sweep(tmp_path) == []
    assert len(list(tmp_path.rglob("left.txt"))) == 1


def test_those_of_another_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dead(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: os.getuid() + 1)
        assert sweep(tmp_path) == []
        assert folder.is_dir()
    assert sweep(tmp_path) == [folder]


def test_those_of_another_kernel_stay_where_its_locks_may_not_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dead(tmp_path)
    (folder / MARK).write_text("evodevo.scratch/1 0b5c3a52-0000-0000-0000-000000000000\n")
    monkeypatch.setattr("os.major", lambda device: 0)  # shared folders are on no disk of this machine
    assert sweep(tmp_path) == []
    assert folder.is_dir()
    monkeypatch.setattr("os.major", lambda device: 8)
    assert sweep(tmp_path) == [folder]


def test_without_locks_nothing_is_marked_and_nothing_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    folder = dead(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(folders.fcntl, "flock", refuse)
        made = Scratch(tmp_path)
        hold(made.path)
        assert os.listdir(made.path) == []
        assert folder.is_dir()
    assert sweep(tmp_path) == [folder]
    assert os.listdir(tmp_path) == [Path(made.path).name]
    made.remove()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_or_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    hold(str(tmp_path / "missing"))
    assert sweep(tmp_path / "missing") == []
    (tmp_path / f"{PREFIX}a_file__").write_text("")
    assert sweep(tmp_path) == []


def test_what_a_kill_leaves_of_a_removal_is_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dead(tmp_path)

    def stop(path: str, ignore_errors: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folders.shutil, "rmtree", stop)
        with pytest.raises(KeyboardInterrupt):
            sweep(tmp_path)
    assert sweep(tmp_path) == [folder]


@pytest.mark.slow
def test_the_next_worker_removes_the_folder_of_one_that_was_killed_with_its_coordinator(tmp_path: Path) -> None:
    code = (
        "from evodevo.execution.processes import ProcessExecutor; from evodevo.execution.base import Job; "
        "from evodevo.testing.executors import first_message; "
        f"e = ProcessExecutor(preload=(), environment={{'TMPDIR': {str(tmp_path)!r}}}); "
        "e.submit(Job('a', 'testing.fork_grandchild', b'hang')); first_message(e)"
    )
    with process(code) as coordinator:
        tree = descendants(coordinator.pid)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # all at once
            for pid in tree:
                os.kill(pid, number)
        coordinator.wait()
        assert wait_until_gone(tree[1:]) == []
    (folder,) = tmp_path.iterdir()
    with ProcessExecutor(preload=(), environment={"TMPDIR": str(tmp_path)}) as executor:
        executor.submit(Job("a", "testing.hang"))
        first_message(executor)
        assert not folder.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
