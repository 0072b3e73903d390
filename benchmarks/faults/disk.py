"""A disk that is full at any moment: exit code 8 with a sentence, the store whole, and the work can go on.

Cases take turns with a search and with what moves or writes whole stores: `store gc`, `backup`, `pack`, `copy` and
`report`. Each has a disk of its own (a file system in memory, which needs the right to mount one) with room for a part
of what it wants to write, or, at every third turn and where nothing can be mounted, a limit to the size of its files.
Then there is room again, and the same work is done to its end: a search must be that of a disk that was never full.

    python benchmarks/faults/disk.py --cases 60 --seed 0
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from campaign import Campaign, Case
from sessions import EVOLVE, difference, everything, session, write_data

from evodevo.errors import ExitCode
from evodevo.storage import Store

SEARCH = (*EVOLVE, "--set", "study.confirmations=0")
WRITERS: Mapping[str, Sequence[str]] = {
    "backup": ("store", "backup"),
    "pack": ("store", "pack", "packed.evo"),
    "copy": ("store", "copy", "runs", "copied"),
    "report": ("report", "last", "-o", "page.html"),
    "gc": ("store", "gc"),
}
MADE = {"pack": "packed.evo", "copy": "copied", "report": "page.html"}
"""What a command makes, and must not leave behind in half."""
DISK = 96 * 2**20
STEP = 4096


def make_search(shared: Path) -> None:
    """The search on a disk that is never full."""
    write_data(shared)
    process = session(shared, SEARCH)
    process.join()
    assert process.exitcode == 0, (shared / "output.txt").read_text()
    with Store.open(shared / "runs", "ro") as store:
        (shared / "seen.json").write_text(json.dumps(everything(store)))
    for name, command in WRITERS.items():
        copy = shared / name
        shutil.copytree(shared / "runs", copy / "runs")
        before = size(copy)
        process = session(copy, command)
        process.join()
        assert process.exitcode == 0, (copy / "output.txt").read_text()
        (shared / f"{name}.bytes").write_text(str(max(16 * STEP, size(copy) - before)))
        shutil.rmtree(copy)


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def disk(folder: Path) -> Iterator[str]:
    """A small file system at a folder; gives the reason where there can be none."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        problem = done.stderr.strip() if done.returncode else ""
    except FileNotFoundError:
        problem = "no mount command"
    try:
        yield problem
    finally:
        if not problem:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, room: int) -> None:
    """Leave so many bytes free."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with (folder / "ballast").open("wb") as file:
        file.write(bytes(max(0, free - room)))


def run_full(case: Case) -> None:
    """One command on a full disk, and again where there is room."""
    kinds = ("search", *WRITERS)
    kind, turn = kinds[case.number % (len(kinds))], case.number // len(kinds)
    folder, output = case.folder / "disk", case.folder / "output.txt"
    with disk(folder) as problem:
        limited = bool(problem) or turn % 3 == 2
        case.note(kind=kind, way="largest file" if limited else "full disk", mount=problem or "permitted")
        search = kind == "search"
        command = SEARCH if search else WRITERS[kind]
        if search:
            wanted = size(case.shared / "runs")
            write_data(folder)
        else:
            shutil.copytree(case.shared / "runs", folder / "runs")
            wanted = int((case.shared / f"{kind}.bytes").read_text())
        if kind == "gc":
            _litter(folder)
        largest = max((path.stat().st_size for path in (case.shared / "runs").rglob("*")), default=0)
        room = case.rng.randrange(0, (largest if limited else wanted) // STEP + 1) * STEP
        case.note(room=room, wanted=wanted)
        if not limited:
            fill(folder, room)
        process = session(folder, command, largest=room if limited else None, output=output)
        process.join()
        words = output.read_text(errors="replace")
        case.note(code=process.exitcode, words=words[-400:])
        case.count(f"{kind}, {case.facts['way']}", f"code {process.exitcode}")
        sentence = "space" in words and "Traceback" not in words
        told = process.exitcode == 0 or (process.exitcode == ExitCode.DISK_FULL and sentence)
        case.promise("a full disk is exit code 8 and a sentence", "" if told else f"{process.exitcode}: {words[-600:]}")
        if process.exitcode != 0 and kind in MADE:
            left = (folder / MADE[kind]).exists()
            case.promise("nothing is left in half", f"{MADE[kind]} is there" if left else "")
        (folder / "ballast").unlink(missing_ok=True)
        if (folder / "runs" / "store.db").exists():
            case.promise("the store is whole", _damage(folder))
        _go_on(case, folder, output, search=search, failed=process.exitcode != 0, command=command)


def _litter(folder: Path) -> None:
    """Blobs that nothing holds, old enough to be collected."""
    with Store.open(folder / "runs") as store:
        for number in range(20):
            digest = store.blobs.put_bytes(f"litter {number}".encode() * 1000)
            path = folder / "runs" / "blobs" / "sha256" / digest[:2] / digest
            os.utime(path, (0, 0))


def _damage(folder: Path) -> str:
    with Store.open(folder / "runs") as store:
        return "; ".join(f"{one.subject}: {one.message}" for one in store.check(deep=True).problems)


def _go_on(case: Case, folder: Path, output: Path, *, search: bool, failed: bool, command: Sequence[str]) -> None:
    """The same work where there is room again, and what it gives."""
    if failed:
        begun = False
        if search and (folder / "runs" / "store.db").exists():
            with Store.open(folder / "runs") as store:
                begun = bool(store.runs())
        again = session(folder, ("resume", "last") if begun else command, output=output)
        again.join()
        words = output.read_text(errors="replace")[-600:]
        case.promise("with room again it succeeds", "" if again.exitcode == 0 else f"{again.exitcode}: {words}")
    with Store.open(folder / "runs", "ro") as store:
        seen = json.loads(json.dumps(everything(store)))
    case.promise("nothing is lost, nothing is another", difference(seen, json.loads(_seen(case))))


def _seen(case: Case) -> str:
    return (case.shared / "seen.json").read_text()


IMPORTS = ("evodevo.backbone.evaluate", "evodevo.backbone.problem", "evodevo.backbone.report", "evodevo.runs.evolve")

if __name__ == "__main__":
    Campaign("disk", run_full, make_search, seconds=900, imports=IMPORTS).main(__doc__, cases=60, minutes=30)
