"""An entry of the token cache is what was written, or it is not there."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from evodevo.errors import DiskFullError, UsageError
from evodevo.tasks.text import token_cache
from evodevo.tasks.text.token_cache import CachedTokens, TokenCache

KEY = "ab" * 32
ENTRY = CachedTokens({"tokens_train": np.arange(1000, dtype=np.uint16)}, b'{"kind":"bytes"}', {"source": "here"})


def _same(a: CachedTokens | None, b: CachedTokens) -> bool:
    return (
        a is not None
        and (a.tokenizer, a.info, set(a.arrays)) == (b.tokenizer, b.info, set(b.arrays))
        and all(np.array_equal(a.arrays[name], b.arrays[name]) for name in b.arrays)
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_was_put_is_found_and_read_only(tmp_path: Path) -> None:
    cache = TokenCache(tmp_path)
    assert cache.get(KEY) is None
    written = cache.put(KEY, ENTRY)
    assert _same(written, ENTRY)
    found = cache.get(KEY)
    assert _same(found, ENTRY)
    assert found is not None
    assert not found.arrays["tokens_train"].flags.writeable
    assert found.arrays["tokens_train"].dtype == np.uint16
    before = [(path, path.stat().st_ino) for path in _files(tmp_path)]
    TokenCache(tmp_path).put(KEY, ENTRY)
    assert [(path, path.stat().st_ino) for path in _files(tmp_path)] == before, "the first of two writers stays"
    (tmp_path / "file").write_text("in the way")
    assert TokenCache(tmp_path / "file").put(KEY, ENTRY) is ENTRY, "a folder that cannot be written is no obstacle"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tokens_train.npy", "flip"),
        ("tokens_train.npy", "remove"),
        ("tokenizer.json", "truncate"),
        ("manifest.json", "empty"),
    ],
)
def test_any_damage_is_seen_and_repaired_by_putting_again(tmp_path: Path, name: str, damage: str) -> None:
    cache = TokenCache(tmp_path)
    cache.put(KEY, ENTRY)
    (path,) = (path for path in _files(tmp_path) if path.name == name)
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes({"flip": bytes(content), "truncate": bytes(content[:-1]), "empty": b""}[damage])
    assert cache.get(KEY) is None
    assert _same(cache.put(KEY, ENTRY), ENTRY)
    assert _same(cache.get(KEY), ENTRY)
    assert len(_files(tmp_path)) == 3  # nothing is left over


def test_an_entry_under_another_key_is_not_taken(tmp_path: Path) -> None:
    cache = TokenCache(tmp_path)
    cache.put(KEY, ENTRY)
    other = "cd" * 32
    (tmp_path / "tokens" / "cd").mkdir()
    os.rename(tmp_path / "tokens" / "ab" / KEY, tmp_path / "tokens" / "cd" / other)
    assert cache.get(other) is None


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(token_cache.np, "save", full)
    with pytest.raises(DiskFullError, match="XDG_CACHE_HOME"):
        TokenCache(tmp_path).put(KEY, ENTRY)
    assert not _files(tmp_path)


def test_a_key_is_a_digest_and_never_a_path_and_an_array_never_of_objects(tmp_path: Path) -> None:
    for key in ("", "../../etc/passwd", "AB" * 32, "ab" * 31):
        with pytest.raises(UsageError, match="64 hexadecimal"):
            TokenCache(tmp_path).get(key)
    with pytest.raises(ValueError, match="allow_pickle"):
        TokenCache(tmp_path).put(KEY, CachedTokens({"tokens_train": np.array([{}], dtype=object)}, b"", {}))


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert token_cache.default_folder() == tmp_path / "evodevo"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert token_cache.default_folder() == Path.home() / ".cache" / "evodevo"
