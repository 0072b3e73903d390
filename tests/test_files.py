"""Reading of files of any origin: what is no regular file, too large, packed to burst or linked out is refused."""

from __future__ import annotations

import gzip
import lzma
import os
import socket
from pathlib import Path

import pytest

from evodevo import files
from evodevo.errors import DataError, UnsafeFileError, UsageError


def test_other_kinds_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, words in (("pipe", "a pipe"), ("folder", "a folder"), ("socket", "a socket"), ("device", "a device")):
        assert not files.regular(tmp_path / name)
        with pytest.raises(DataError, match=f"{name} is {words}, and a file is wanted"):
            files.read(tmp_path / name, 10)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("absent", "circle", "x" * 300, "a\0b"):
        assert not files.regular(tmp_path / name)
        with pytest.raises(DataError, match="cannot be read"):
            files.read(tmp_path / name, 10)


def test_sizes_are_asked_before_bytes_are_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DataError, match="1,099,511,627,776 bytes; at most 10 are read"):
        files.read(tmp_path / "sparse", 10)
    with pytest.raises(DataError, match="at most 1 are read"):  # of the kernel, which states no size
        files.read(Path("/proc/self/status"), 1)


def test_links_may_stay_and_not_leave(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"a")
    (tmp_path / "out").write_bytes(b"out")
    (folder / "b").symlink_to("a")
    (folder / "c").symlink_to("../out")
    assert files.read(folder / "b", 1, inside=folder) == b"a"
    assert files.read(folder / "c", 3) == b"out"  # a file that the user named
    for refused in (lambda: files.read(folder / "c", 3, inside=folder), lambda: files.regular(folder / "c", folder)):
        with pytest.raises(UnsafeFileError, match="outside of"):
            refused()
    with pytest.raises(DataError, match="outside the folder"):
        files.refuse_links_outside(folder)


def test_packed_streams_are_what_was_packed(tmp_path: Path) -> None:
    lines = [os.urandom(300).replace(b"\n", b"") + b"\n" for _ in range(5000)]
    whole = b"".join(lines)
    half = len(whole) // 2
    packed = {
        "": whole,
        ".gz": gzip.compress(whole[:half]) + gzip.compress(whole[half:]),
        ".xz": lzma.compress(whole[:half]) + bytes(8) + lzma.compress(whole[half:]) + bytes(4),
    }
    for compression, data in packed.items():
        (tmp_path / "a").write_bytes(data)
        with files.unpacked(tmp_path / "a", compression) as stream:
            assert stream.read() == whole
        with files.unpacked(tmp_path / "a", compression) as stream:
            assert list(stream) == lines
        with (
            pytest.raises(DataError, match=r"at most|has more than"),
            files.unpacked(tmp_path / "a", compression, len(whole) - 1) as stream,
        ):
            stream.read()


@pytest.mark.parametrize("compression", [".gz", ".xz"])
def test_damage_and_bombs(tmp_path: Path, compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = gzip.compress if compression == ".gz" else lzma.compress
    data = pack(os.urandom(1000))
    for broken in (data[:-9], b"", b"text", data[:500] + b"?" + data[501:]):
        (tmp_path / "a").write_bytes(broken)
        with files.unpacked(tmp_path / "a", compression) as stream:
            if not broken and compression == ".gz":
                assert stream.read() == b""
                continue
            with pytest.raises(DataError, match="a cannot be read"):
                stream.read()
    monkeypatch.setattr(files, "FREE_BYTES", 10_000)
    (tmp_path / "a").write_bytes(pack(bytes(2**22)))
    with files.unpacked(tmp_path / "a", compression) as stream, pytest.raises(DataError, match="200 times its size"):
        stream.read()


def test_an_xz_file_cannot_ask_for_more_memory_than_a_dictionary_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_UNPACKER_BYTES", 2**20)
    for preset, fits in ((0, True), (6, False)):  # dictionaries of 256 KiB and 8 MiB
        (tmp_path / "a").write_bytes(lzma.compress(b"text", preset=preset))
        with files.unpacked(tmp_path / "a", ".xz") as stream:
            if fits:
                assert stream.read() == b"text"
            else:
                with pytest.raises(DataError, match="a cannot be read"):
                    stream.read()


def test_text_is_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfgr\xc3\xbcn")
    assert files.read_text(tmp_path / "a", 100) == "grün"
    for data, words in (("a".encode("utf-16"), "UTF-16"), (b"caf\xe9", r"not UTF-8 .byte 3 is 0xe9")):
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(DataError, match=words):
            files.read_text(tmp_path / "a", 100)


def test_the_limit_of_data_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.most_input() == 2 * files.GIB
    monkeypatch.setenv(files.MOST_INPUT, "0.5")
    assert files.most_input() == files.GIB // 2
    for wrong in ("many", "0", "nan", "-1", ""):
        monkeypatch.setenv(files.MOST_INPUT, wrong)
        with pytest.raises(UsageError, match="no number of GiB"):
            files.most_input()
