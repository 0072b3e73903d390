"""Kept representations (docs/spec/munet.md#caching-and-skipping)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import DataError, UsageError
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath import rows as path_rows
from evodevo.multitask.paths.multipath.cache import PathCache, rows_key
from evodevo.multitask.paths.multipath.evaluate import MultipathReader, open_reader
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.multipath.rows import CachedRows, CacheSettings, Places, Rows
from evodevo.multitask.paths.multipath_spec import ABLATIONS, MultipathStructure

COUNT, BLOCK, CLASSES, WIDTHS = 50, 16, 3, (5, 4)
KEY = "0" * 64


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_rows, "FEWEST_ROWS", BLOCK)


def values(places: Places, width: int = 3) -> Rows:
    """Numbers that say which sample they are of."""
    return places[:, None] + np.linspace(0.1, 0.9, width)


def rows_in(folder: Path, count: int = COUNT, **settings: Any) -> CachedRows:
    return PathCache(folder, CacheSettings(**settings)).rows(KEY, count, 3)


class Asked:
    """Makes values, and remembers for which samples."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def __call__(self, places: Places) -> Rows:
        self.places.extend(places.tolist())
        return values(places)


def never(places: Places) -> Rows:
    raise AssertionError(f"asked for {places}")


def test_rows_come_in_the_order_asked_for_and_are_made_once(tmp_path: Path) -> None:
    asked, places = Asked(), np.array([40, 3, 3, 17])
    rows = rows_in(tmp_path)
    np.testing.assert_allclose(rows.read(places, asked), values(places), rtol=1e-6)
    assert asked.places == [*range(48)], "whole blocks, and no others"
    np.testing.assert_allclose(rows.read(places[::-1], never), values(places[::-1]), rtol=1e-6)
    np.testing.assert_allclose(rows_in(tmp_path).read(places, never), values(places), rtol=1e-6)
    last = rows_in(tmp_path).read(np.array([49]), asked)
    np.testing.assert_allclose(last, values(np.array([49])), rtol=1e-6)
    assert asked.places[48:] == [48, 49], "the last block is what is left"


def test_blocks_are_files_that_are_mapped(tmp_path: Path) -> None:
    rows = rows_in(tmp_path)
    rows.read(np.arange(COUNT), values)
    files = sorted(tmp_path.rglob("*.rows"))
    assert len(files) == 4
    assert PathCache(tmp_path).bytes_used() == COUNT * 3 * 4
    assert all(isinstance(block.base, np.memmap) for block in rows._open.values())
    assert not list(tmp_path.rglob(".new-*"))
    large = rows_in(tmp_path, count=10_000)
    assert len(large.blocks_of(np.arange(10_000))) <= path_rows.MOST_BLOCKS, "they are larger, and no more of them"


@pytest.mark.parametrize(("kept", "error"), [("float64", 0), ("float32", 1e-7), ("float16", 1e-3)])
def test_numbers_are_the_same_whether_kept_or_just_made(tmp_path: Path, kept: Any, error: float) -> None:
    places = np.arange(COUNT)
    made = rows_in(tmp_path, kept=kept).read(places, values)
    found = rows_in(tmp_path, kept=kept).read(places, never)
    nowhere = rows_in(tmp_path / "other", kept=kept, limit_bytes=0).read(places, values)
    assert made.dtype == found.dtype == np.dtype(kept)
    np.testing.assert_array_equal(made, found)
    np.testing.assert_array_equal(made, nowhere)
    np.testing.assert_allclose(made, values(places), rtol=error)
    assert not list((tmp_path / "other").rglob("*.rows"))
    assert not rows_in(tmp_path, kept="float32" if kept != "float32" else "float16").has(0), "types do not mix"


@pytest.mark.parametrize("damage", ["flip", "short", "long", "empty"])
def test_a_damaged_block_is_made_anew(tmp_path: Path, damage: str) -> None:
    rows_in(tmp_path).read(np.arange(BLOCK), values)
    (path,) = tmp_path.rglob("*.rows")
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[7] ^= 1
    path.write_bytes({"flip": content, "short": content[:-4], "long": content + b"abcd", "empty": b""}[damage])
    asked = Asked()
    np.testing.assert_allclose(rows_in(tmp_path).read(np.arange(BLOCK), asked), values(np.arange(BLOCK)), rtol=1e-6)
    assert asked.places == [*range(BLOCK)]
    np.testing.assert_allclose(rows_in(tmp_path).read(np.arange(BLOCK), never), values(np.arange(BLOCK)), rtol=1e-6)


def test_the_longest_unused_make_room(tmp_path: Path) -> None:
    block = BLOCK * 3 * 4
    rows = rows_in(tmp_path, limit_bytes=2 * block)
    for number in (0, 1):
        rows.put(number, values(rows.samples_of(number)))
        os.utime(next(tmp_path.rglob(f"{number}-*.rows")), (number, number))
    assert rows_in(tmp_path, limit_bytes=2 * block).has(0), "looking is using"
    rows.put(2, values(rows.samples_of(2)))
    fresh = rows_in(tmp_path)
    assert [fresh.has(number) for number in range(3)] == [True, False, True]
    assert PathCache(tmp_path).bytes_used() <= 2 * block
    np.testing.assert_allclose(rows.take(np.array([20])), values(np.array([20])), rtol=1e-6)  # an open map stays


def test_a_folder_that_cannot_be_written_is_no_reason_not_to_train(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        tmp_path = tmp_path / "full"  # nobody keeps root from writing: see the full disk below
        tmp_path.mkdir()
    else:
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    rows = rows_in(tmp_path)
    np.testing.assert_allclose(rows.read(np.arange(COUNT), values), values(np.arange(COUNT)), rtol=1e-6)
    np.testing.assert_allclose(rows.read(np.arange(COUNT), never), values(np.arange(COUNT)), rtol=1e-6)


def test_a_full_disk_is_no_reason_not_to_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(path_rows.os, "replace", full)
    rows = rows_in(tmp_path)
    np.testing.assert_allclose(rows.read(np.arange(COUNT), values), values(np.arange(COUNT)), rtol=1e-6)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing half written is left"


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    rows = rows_in(tmp_path)
    rows.put(0, values(rows.samples_of(0)))
    folder = next(tmp_path.rglob("*.rows")).parent
    old, young = folder / ".new-old", folder / ".new-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    rows.put(1, values(rows.samples_of(1)))
    assert (old.exists(), young.exists()) == (False, True)


FILL = """
import sys
from pathlib import Path
import numpy as np
from evodevo.multitask.paths.multipath import rows as path_rows
from evodevo.multitask.paths.multipath.cache import PathCache

path_rows.FEWEST_ROWS = 16
seed = int(sys.argv[2])
settings = path_rows.CacheSettings(limit_bytes=500 if seed % 2 else None)
rows = PathCache(Path(sys.argv[1]), settings).rows("0" * 64, 50, 3)
values = lambda places: places[:, None] + np.linspace(0.1, 0.9, 3)
for places in np.array_split(np.random.default_rng(seed).permutation(50), 10):
    np.testing.assert_allclose(rows.read(places, values), values(places), rtol=1e-6)
assert "torch" not in sys.modules
"""


@pytest.mark.slow
def test_many_processes_fill_one_cache(tmp_path: Path) -> None:
    """One of them throws out what others have just made."""
    processes = [subprocess.Popen([sys.executable, "-c", FILL, str(tmp_path), str(seed)]) for seed in range(3)]
    assert [process.wait() for process in processes] == [0] * 3
    np.testing.assert_allclose(rows_in(tmp_path).read(np.arange(COUNT), values), values(np.arange(COUNT)), rtol=1e-6)


def test_wrong_rows_are_refused(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, kept="float16")
    with pytest.raises(DataError, match="shape"):
        rows.put(0, np.zeros((3, 3)))
    for wrong in (np.nan, np.inf, 1e6):
        with pytest.raises(DataError, match="finite"):
            rows.put(0, np.full((BLOCK, 3), wrong))
    for place in (-1, COUNT):
        with pytest.raises(DataError, match="no sample"):
            rows.read(np.array([0, place]), values)
    with pytest.raises(UsageError, match="64"):
        PathCache(tmp_path).rows("../../etc", COUNT, 3)


def test_the_key_is_over_everything_that_decides() -> None:
    pairs: dict[str, tuple[Any, Any]] = {
        "path": ("Vit~a/1", "Vit~a/2"),
        "components": ({"head": "ab"}, {"head": "cd"}),
        "structure": ({"width": 3}, {"width": 4}),
        "answer": ("logits", "representation"),
        "samples": ("mnist/train", "mnist/test"),
        "preparation": ({"size": 16}, {"size": 32}),
    }
    base = {name: one for name, (one, _) in pairs.items()}
    keys = {rows_key(**base)} | {rows_key(**base | {name: other}) for name, (_, other) in pairs.items()}
    assert len(keys) == 1 + len(pairs)
    assert rows_key(**base) == rows_key(**base)


class Images:
    """Samples of two sizes; counts how often each was prepared."""

    def __init__(self, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self.sizes = {
            size: torch.randn(COUNT, size, generator=generator, dtype=torch.float64).to(dtype) for size in (6, 8)
        }
        self.labels = torch.randint(CLASSES, (COUNT,), generator=generator)
        self.prepared = 0

    def __call__(self, places: Places) -> dict[int, Tensor]:
        self.prepared += len(places)
        return {size: values[torch.from_numpy(places)] for size, values in self.sizes.items()}


def build(structure: MultipathStructure, dtype: torch.dtype) -> Multipath:
    torch.manual_seed(0)
    main = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES)).to(dtype)
    supports = [FrozenPath(nn.Linear(8, width).to(dtype), reads=8) for width in WIDTHS]
    return Multipath(FrozenPath(main, reads=6), supports, CLASSES, WIDTHS, structure).to(dtype)


def keys_of(model: Multipath) -> dict[str, str]:
    return {name: rows_key(name, {}, {}, "logits", "train", {}) for name in model.names}


def train(model: Multipath, reader: MultipathReader, labels: Tensor, steps: int = 20) -> dict[str, Tensor]:
    optimizer = torch.optim.SGD(model.learn(model.components()), lr=0.1, momentum=0.8, nesterov=True)
    rng = np.random.default_rng(0)
    model.train()
    for _ in range(steps):
        places = rng.integers(0, COUNT, 8)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(reader(places)), labels[torch.from_numpy(places)]).backward()
        optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("paths")}


@pytest.mark.parametrize(
    ("name", "dtype", "kept", "error"),
    [
        *((name, torch.float64, "float64", 1e-12) for name in ABLATIONS),
        ("full", torch.float64, "float32", 1e-6),
        ("full", torch.float32, "float32", 1e-4),
    ],
)
def test_training_from_the_cache_is_the_same_training(
    tmp_path: Path, name: str, dtype: torch.dtype, kept: Any, error: float
) -> None:
    """docs/spec/munet.md#caching-and-skipping."""
    images, live = Images(dtype), build(ABLATIONS[name], dtype)
    wanted = train(live, MultipathReader(live, images), images.labels)
    cache = PathCache(tmp_path, CacheSettings(kept=kept))
    for _ in range(2):  # once it is filled, once it is full
        images.prepared = 0
        model = build(ABLATIONS[name], dtype)
        reader = open_reader(model, images, cache, keys_of(model), COUNT)
        for key, value in train(model, reader, images.labels).items():
            torch.testing.assert_close(value, wanted[key], atol=error, rtol=0)
    assert images.prepared == 0, "the second child looks at no image"


def test_only_what_is_missing_is_made_and_each_sample_is_prepared_once(tmp_path: Path) -> None:
    images, model = Images(torch.float32), build(MultipathStructure(), torch.float32)
    cache, keys = PathCache(tmp_path), keys_of(model)
    open_reader(model, images, cache, keys, COUNT)(np.arange(COUNT))
    assert images.prepared == COUNT, "for three paths together"
    keys["support_2"] = "f" * 64
    seen: list[str] = []
    for name, path in model.paths.items():
        path.register_forward_hook(lambda *_, name=name: seen.append(name))
    found = open_reader(model, images, cache, keys, COUNT)(np.arange(COUNT))
    assert set(seen) == {"support_2"}
    with torch.no_grad():
        for name, value in model.represent_paths(images(np.arange(COUNT))).items():
            torch.testing.assert_close(dict(found)[name], value)  # type: ignore[call-overload]


def test_a_reader_refuses_rows_of_something_else(tmp_path: Path) -> None:
    model, images, cache = build(MultipathStructure(), torch.float32), Images(torch.float32), PathCache(tmp_path)
    with pytest.raises(UsageError, match="key for each"):
        open_reader(model, images, cache, {"main": KEY}, COUNT)

    def rows(counts: Sequence[int], widths: Sequence[int]) -> dict[str, CachedRows]:
        return {
            name: cache.rows(KEY, count, width) for name, count, width in zip(model.names, counts, widths, strict=True)
        }

    with pytest.raises(UsageError, match="wide"):
        MultipathReader(model, images, rows([COUNT] * 3, [CLASSES, 5, 5]))
    with pytest.raises(UsageError, match="same samples"):
        MultipathReader(model, images, rows([COUNT, COUNT, 7], [CLASSES, *WIDTHS]))
