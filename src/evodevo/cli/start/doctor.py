"""``evodevo doctor``: check whether evodevo works on this machine, and list its versions and devices."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo import __version__
from evodevo.cli import output
from evodevo.cli.options import DEFAULT_STORE, Json, StoreFolder
from evodevo.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from evodevo.storage.addresses import Place

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 11)
LITTLE_DISK = 2**30


@dataclass
class Findings:
    """Findings on the machine; ``problems`` keep evodevo from working, ``advice`` does not."""

    evodevo: str = __version__
    python: str = field(default_factory=platform.python_version)
    torch: str | None = None
    device: str | None = None
    gpu: str | None = None
    gpu_memory_bytes: int | None = None
    processors: int = 0
    torch_threads: int | None = None
    kernels: dict[str, bool] = field(default_factory=dict)
    sqlite: str = sqlite3.sqlite_version
    wal: bool = False
    store: str = ""
    store_writable: bool = False
    disk_free_bytes: int = 0
    filesystem: str = ""
    network_filesystem: bool = False
    cache: str = ""
    cache_writable: bool = False
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def doctor(
    store: StoreFolder = DEFAULT_STORE,
    device: Annotated[str, typer.Option(help="The device to look for: auto, cpu, cuda, cuda:N.")] = "auto",
    json: Json = False,
) -> None:
    """Check this machine: versions, device, disk, and whether a store works here. Exit code 1 if it does not."""
    seen = Findings(processors=len(os.sched_getaffinity(0)))
    if sys.version_info < OLDEST_PYTHON:
        seen.problems.append(f"python {seen.python} is too old; 3.11 or newer is wanted.")
    _look_at_store(seen, store)
    _look_at_cache(seen)
    _look_at_torch(seen, device)
    if json:
        output.document("evodevo.doctor/1", {"ready": not seen.problems, **asdict(seen)})
    else:
        _print(seen)
    if seen.problems:
        raise typer.Exit(ExitCode.INTERNAL)


def _look_at_store(seen: Findings, store: Place) -> None:
    from evodevo.storage.filesystems import filesystem_type, is_network

    if not isinstance(store, Path):
        _look_at_server(seen, store)
        return
    seen.store = str(store.absolute())
    seen.filesystem = filesystem_type(store)
    seen.network_filesystem = is_network(store)
    folder = _nearest_folder(store)
    seen.store_writable = _can_write(folder)
    if not seen.store_writable:
        seen.problems.append(f"{folder} cannot be written; name another folder with --store.")
        return
    seen.disk_free_bytes = shutil.disk_usage(folder).free
    if seen.disk_free_bytes < LITTLE_DISK:
        seen.advice.append(f"only {_size(seen.disk_free_bytes)} are free on the disk of the store.")
    if seen.network_filesystem:
        seen.advice.append("the store lies on a network file system: it works without WAL, more slowly.")
    else:
        seen.wal = _wal_works(folder)
        if not seen.wal:
            seen.problems.append(
                f"SQLite cannot use its write-ahead log in {folder}; name another folder with --store."
            )


def _look_at_server(seen: Findings, store: Place) -> None:
    from evodevo.errors import EvodevoError, NotFoundError
    from evodevo.storage import Store

    seen.store = str(store)
    try:
        with Store.open(store, "ro", create=False) as opened:
            seen.filesystem = "postgresql"
            if opened.blobs_folder is None:
                seen.filesystem += f", blobs at {opened.blobs_address}"
                opened.blobs.owner()  # an error where the object store cannot be reached
                seen.store_writable = True
                return
            seen.store_writable = _can_write(opened.blobs_folder)
            seen.disk_free_bytes = shutil.disk_usage(opened.blobs_folder).free
            if not seen.store_writable:
                seen.problems.append(f"{opened.blobs_folder} cannot be written; name another folder with --blobs.")
    except NotFoundError as error:
        seen.advice.append(str(error))
    except EvodevoError as error:
        seen.problems.append(str(error))


def _look_at_cache(seen: Findings) -> None:
    from evodevo.tasks.text.token_cache import default_folder

    cache = default_folder()
    seen.cache = str(cache)
    seen.cache_writable = _can_write(_nearest_folder(cache))
    if not seen.cache_writable:
        seen.problems.append(f"{cache} cannot be written; set XDG_CACHE_HOME to a folder that can.")


def _look_at_torch(seen: Findings, device: str) -> None:
    try:
        import torch
    except ImportError as error:
        seen.problems.append(f"torch cannot be imported ({error}). Install it with: pip install 'torch>=2.11'")
        return
    from evodevo.operators.kernels.table import KERNELS
    from evodevo.training.precision import decide

    seen.kernels = {name: KERNELS.get(name).installed for name in KERNELS}
    seen.torch = str(torch.__version__)
    seen.torch_threads = torch.get_num_threads()
    # "2.13.0+cpu" and "2.14.0a0+git1234" begin alike.
    if tuple(int(part) for part in seen.torch.split(".")[:2]) < OLDEST_TORCH:
        seen.problems.append(f"torch {seen.torch} is too old. Install a newer one with: pip install 'torch>=2.11'")
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        seen.gpu, seen.gpu_memory_bytes = properties.name, properties.total_memory
    try:
        seen.device = str(decide(device).device)
    except UsageError as error:
        seen.problems.append(str(error))


def _nearest_folder(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _can_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _wal_works(folder: Path) -> bool:
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".evodevo-doctor-") as inside:
            connection = sqlite3.connect(Path(inside) / "probe.db")
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
                connection.execute("CREATE TABLE probe (x)")
            finally:
                connection.close()
    except (OSError, sqlite3.Error):
        return False
    return bool(mode == "wal")


def _print(seen: Findings) -> None:
    gpu = f"{seen.gpu}, {_size(seen.gpu_memory_bytes)}" if seen.gpu and seen.gpu_memory_bytes else "none"
    rows = [
        ("evodevo", seen.evodevo),
        ("python", seen.python),
        ("torch", f"{seen.torch or 'missing'}, {seen.torch_threads or 0} threads"),
        ("device", f"{seen.device or 'none'} (gpu: {gpu}; {seen.processors} processors)"),
        ("kernels", f"{', '.join(name for name, found in seen.kernels.items() if found) or 'none'} (for a gpu alone)"),
        ("sqlite", f"{seen.sqlite}, write-ahead log {'works' if seen.wal else 'not used'}"),
        ("store", f"{seen.store}{'' if seen.store_writable else ' (cannot be written)'}"),
        ("disk", f"{_size(seen.disk_free_bytes)} free, {seen.filesystem or 'unknown file system'}"),
        ("cache", f"{seen.cache}{'' if seen.cache_writable else ' (cannot be written)'}"),
    ]
    for name, value in rows:
        output.line(f"{name:<8} {value}")
    for text in seen.advice:
        output.words(f"note: {text}")
    for text in seen.problems:
        output.words(f"problem: {text}")
    if not seen.problems:
        output.line("ready. next: evodevo demo")


def _size(count: int | None) -> str:
    return f"{(count or 0) / 2**30:.1f} GiB"
