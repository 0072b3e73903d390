"""Files of strangers: does every reader end with a sentence and a documented exit code, in bounded time and memory?

Each case writes one hostile file of a kind with random parameters (sizes that are not there, bombs, pickles, pipes,
links, depth, digits, bits that flipped) and reads it as a command does. Files that happen to be readable may be read.

    python benchmarks/faults/files.py --cases 120 --seed 0
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import resource
import socket
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from campaign import Campaign, Case

from evodevo.cli.application import run
from evodevo.cli.failures import explain
from evodevo.errors import ExitCode
from evodevo.tasks.base import TASKS

SECONDS, MEMORY = 30.0, 3 * 2**30
Read = Callable[[Path], None]
Hostile = Callable[[Path, random.Random], Read]


def task(name: str, **settings: Any) -> Read:
    """Reads data as a task does; ``data`` is the file."""

    def read(path: Path) -> None:
        kind = TASKS.get(name)
        kind.open(kind.settings_class(data=str(path), **settings), path.parent / "cache")

    return read


def command(*words: str) -> Read:
    """Runs a command; FILE is the file."""

    def read(path: Path) -> None:
        code = run([str(path) if word == "FILE" else word for word in words])
        if code:
            raise SystemExit(code)

    return read


TEXT, TABLE, IMAGES = task("language"), task("table", text="text", label="label"), task("images")
GENOME = command("cost", "FILE")
SETTINGS = command("evolve", "backbone.demo", "--config", "FILE", "--dry-run")


def questions(path: Path) -> None:
    """Reads questions."""
    from evodevo.tasks.questions.files import read

    read(path)


def tokenizer(path: Path) -> None:
    """Reads a tokenizer."""
    from evodevo.tasks.text.tokenizers import choose

    choose(str(path), 512)


def model(path: Path) -> None:
    """Reads the folder of a pretrained ViT."""
    from evodevo.multitask.paths.vision.roots import read_root

    read_root(str(path))


# Hostile files. Each writes one and returns how it is read.


def odd_places(path: Path, rng: random.Random) -> Read:
    """No regular file, or one of a terabyte."""
    suffix, read = rng.choice(
        ((".txt", TEXT), (".csv", TABLE), (".npz", IMAGES), (".toml", SETTINGS), (".genome", GENOME),
         (".json", tokenizer), (".jsonl", questions), (".parquet", TEXT))
    )  # fmt: skip
    place = path.with_suffix(suffix)
    kind = rng.choice(("pipe", "folder", "socket", "device", "sparse", "link", "absent"))
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    elif kind == "sparse":
        with place.open("wb") as file:
            file.truncate(rng.choice((2**40, 2**33, 2**27)))
    elif kind in ("device", "link"):
        place.symlink_to("/dev/zero" if kind == "device" else place)
    return lambda _: read(place)


def packed_text(path: Path, rng: random.Random) -> Read:
    """Bombs, cut and changed streams, wrong suffixes."""
    data = rng.choice((bytes(2**28), b"a" * 2**26, os.urandom(100), b"some words\n" * 1000))
    compress = rng.choice((gzip.compress, lzma.compress, bz2.compress))
    packed = bytearray(compress(data))
    change = rng.choice(("whole", "cut", "flip", "twice"))
    if change == "cut":
        del packed[rng.randrange(len(packed)) :]
    elif change == "flip":
        packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
    elif change == "twice":
        packed = bytearray(compress(bytes(packed)))
    name, read = rng.choice(((".txt", TEXT), (".jsonl", TEXT), (".csv", TABLE), (".jsonl", questions)))
    place = path.with_suffix(name + rng.choice((".gz", ".xz")))
    place.write_bytes(packed)
    return lambda _: read(place)


def texts(path: Path, rng: random.Random) -> Read:
    """What is no UTF-8, and lines without an end."""
    data = rng.choice(
        (
            "some words".encode("utf-16"),
            b"\xff\xfe" + os.urandom(200),
            b"caf\xe9 " * 100,
            b"a,b\n1,\0\n",
            b"x" * 2**20,
            (b"abcdefgh"[rng.randrange(8) :] * 2**17)[: 2**20],
            b" " * 2**20,
            b"\xf0\x9f" * 50,
        )
    )
    place = path.with_suffix(rng.choice((".txt", ".csv", ".jsonl")))
    place.write_bytes(data)
    read = rng.choice((TEXT, task("language", tokenizer="bpe", vocabulary=300), TABLE))
    return lambda _: read(place)


def tables(path: Path, rng: random.Random) -> Read:
    """Columns without end, twice, or of other lengths."""
    many = rng.choice((10**4, 10**5, 2 * 10**5))
    lines = rng.choice(
        (
            ",".join(map(str, range(many))) + "\n" + "1," * (many - 1) + "1\n",
            "text,label,text\na,b,c\n",
            "text,label\n" + "a,b,c\n" * 10,
            'text,label\n"a' * 100,
            "text,label\n" + "x" * 10**6 + ",b\n",
            "," * many,
            "\n" * many,
        )
    )
    place = path.with_suffix(".csv")
    place.write_text(lines)
    return lambda _: TABLE(place)


def json_texts(path: Path, rng: random.Random) -> Read:
    """Depth, digits, names twice, numbers that are none."""
    deep, digits = rng.choice((100, 10**4, 10**5)), rng.choice((100, 5000, 10**5))
    text = rng.choice(
        (
            "[" * deep + "]" * deep,
            '{"a":' * deep + "1" + "}" * deep,
            '{"text": ' + "9" * digits + "}",
            '{"space": "backbone", "version": 1e999, "genes": []}',
            '{"text": "a", "text": "b", "label": "c"}',
            '{"text": NaN, "label": Infinity}',
            '{"text": "\\ud800", "label": "a"}',
            '{"space": "backbone", "version": 1, "genes": [' + "[1,1,1,1,1]," * 10**5 + "[1]]}",
            '{"question": "a", "choices": ' + "[" * deep,
            '"' * deep,
        )
    )
    lines = ((".jsonl", reader) for reader in (TEXT, TABLE, questions))
    suffix, read = rng.choice((*lines, (".json", GENOME), (".json", tokenizer)))
    place = path.with_suffix(suffix)
    place.write_text(text)
    return lambda _: read(place)


def settings(path: Path, rng: random.Random) -> Read:
    """TOML that takes all of the stack, or for ever."""
    deep = rng.choice((70, 10**4, 3 * 10**5))
    text = rng.choice(
        (
            "a = " + "9" * rng.choice((40, 5000, 10**6)),
            "a = " + "[" * deep + "]" * deep,
            "a = " + "{a=" * deep + "1" + "}" * deep,
            ".".join("a" * deep) + " = 1",
            "[" + ".".join("a" * deep) + "]",
            '"' * deep,
            "a = '''" + "x" * deep,
            "a = 1979-05-27T07:32:00Z",
            "study.population = inf",
            "a = 1\na = 2",
            "_target_ = 'os.system'\n",
            "a = 0x" + "f" * deep,
            "\ufeffstudy.generations = -1",
        )
    )
    place = path.with_suffix(".toml")
    place.write_text(text)
    return lambda _: SETTINGS(place)


def _npy(shape: tuple[int, ...], kind: str, data: bytes) -> bytes:
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def arrays(path: Path, rng: random.Random) -> Read:
    """Arrays of other sizes than stated, of objects, with passwords; zips that lie."""
    place, big = path.with_suffix(".npz"), 10 ** rng.randint(6, 20)
    kind = rng.choice(("stated", "object", "password", "bomb", "flip", "many", "idx", "header", "negative"))
    data = bytes(784)
    if kind == "idx":
        place = path.with_name("train-images-idx3-ubyte")
        place.write_bytes(b"\0\0\x08\x03" + struct.pack(">III", *(rng.randrange(2**32) for _ in range(3))) + data)
        place.with_name("train-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + struct.pack(">I", rng.randrange(2**32))
        )
        return lambda _: IMAGES(place)
    x = {
        "stated": _npy((big,), "|u1", data),
        "object": _npy((1,), "|O", b"\x80\x04cos\nsystem\n."),
        "bomb": _npy((2**29,), "|u1", bytes(2**29)) if kind == "bomb" else b"",
        "header": _npy((1,), "(" * rng.choice((10, 9000)), data),
        "negative": _npy((-1, -784), "|u1", data),
    }.get(kind, _npy((1, 28, 28), "|u1", data))
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", x)
        archive.writestr("y.npy", _npy((1,), "|u1", b"\1"))
        for number in range(20_000 if kind == "many" else 0):
            archive.writestr(f"{number}.npy", b"")
    whole = bytearray(place.read_bytes())
    if kind == "password":
        for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            whole[whole.index(mark) + offset] |= 1
    if kind == "flip":
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    place.write_bytes(whole)
    return lambda _: IMAGES(place)


def _png(width: int, height: int, data: bytes) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def images(path: Path, rng: random.Random) -> Read:
    """Pictures of 10^10 pixels, changed bytes, other formats, links that lead out."""
    from PIL import Image

    folder = path.with_suffix("")
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / name / f"{number}.png")
    kind, bad = rng.choice(("huge", "flip", "format", "link", "pipe", "postscript")), folder / "a" / "2.png"
    if kind == "huge":
        bad.write_bytes(_png(10 ** rng.randint(4, 6), 10 ** rng.randint(5, 6), bytes(100)))
    elif kind in ("flip", "format"):
        out = io.BytesIO()
        written = rng.choice(("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP", "PPM"))
        Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(out, written)
        data = bytearray(out.getvalue())
        for _ in range(rng.randint(1, 20) if kind == "flip" else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
        bad.write_bytes(data)
    elif kind == "link":
        bad.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(bad)
    else:
        bad.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) print\n")
    return lambda _: IMAGES(folder)


def parquets(path: Path, rng: random.Random) -> Read:
    """Dates, tables within tables, a billion equal rows, changed bytes."""
    import datetime

    import pyarrow
    from pyarrow import parquet

    kind = rng.choice(("dates", "nested", "bytes", "bomb", "flip", "cut", "wide"))
    columns: dict[str, Any] = {"text": ["a", "b"] * 20, "label": ["x", "y"] * 20}
    if kind == "dates":
        columns["text"] = [datetime.date(2026, 1, 1 + day % 28) for day in range(40)]
    elif kind == "nested":
        columns["text"] = [{"a": [{"b": number}]} for number in range(40)]
    elif kind == "bytes":
        columns["text"] = [os.urandom(8) for _ in range(40)]
    elif kind == "bomb":
        word = pyarrow.array(["x" * 10**5])
        columns = {
            "text": pyarrow.DictionaryArray.from_arrays(np.zeros(10**6, np.int32), word),
            "label": np.zeros(10**6),
        }
    elif kind == "wide":
        columns |= {f"c{number}": columns["text"] for number in range(2000)}
    place = path.with_suffix(".parquet")
    parquet.write_table(pyarrow.table(columns), place)
    data = bytearray(place.read_bytes())
    if kind == "flip":
        for _ in range(rng.randint(1, 10)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == "cut":
        del data[rng.randrange(len(data)) :]
    place.write_bytes(data)
    read = rng.choice((TEXT, TABLE))
    return lambda _: read(place)


def tokenizers(path: Path, rng: random.Random) -> Read:
    """Ids beyond every table, holes, and settings that the library does not expect."""
    kind = rng.choice(("large id", "holes", "merges", "added", "type", "empty", "normalizer", "regex"))
    number = rng.choice((2**22, 2**31, 2**32 - 1, 2**63, -1))
    vocabulary: dict[str, Any] = {letter: place for place, letter in enumerate("abcdefgh")}
    values: dict[str, Any] = {"version": "1.0", "added_tokens": [], "pre_tokenizer": None, "decoder": None}
    values["model"] = {"type": "BPE", "vocab": vocabulary, "merges": []}
    if kind in ("large id", "holes"):
        vocabulary["z"] = number if kind == "large id" else rng.choice((10**4, 10**6))
    elif kind == "merges":
        values["model"]["merges"] = [["a", "nowhere"]] * rng.randint(1, 1000)
    elif kind == "added":
        token = {"content": "<x>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        values["added_tokens"] = [{"id": number, **token, "special": True}]
    elif kind == "type":
        values["model"]["type"] = rng.choice(("Unigram", "WordPiece", "WordLevel", "nothing", None))
    elif kind == "empty":
        values = rng.choice(({}, {"model": None}, {"model": {"vocab": []}}))
    elif kind == "normalizer":
        values["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA" * rng.randint(0, 100)}
    else:
        pattern = {"Regex": "(" * rng.randint(1, 10**4)}
        values["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    place = path.with_suffix(".json")
    place.write_text(json.dumps(values))
    return lambda _: tokenizer(place)


def models(path: Path, rng: random.Random) -> Read:
    """Headers, sizes and settings of a pretrained model that are not what they seem."""
    from safetensors.numpy import save

    folder = path.with_suffix("")
    folder.mkdir()
    config: dict[str, Any] = {
        "model_type": "vit", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2,
        "num_hidden_layers": 1, "image_size": 8, "patch_size": 4,
    }  # fmt: skip
    config |= rng.choice(
        (
            {"num_hidden_layers": rng.choice((65_536, 500))}, {"hidden_size": rng.choice((2**20, -1, 1e300))},
            {"auto_map": {"AutoModel": "evil.Model"}}, {"quantization_config": {"bits": 4}}, {"image_size": 2**20},
            {"_attn_implementation": "someone/kernels"}, {"model_type": ["vit"]}, {"hidden_act": "os.system"}, {},
        )
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    data = bytearray(save({"embeddings.cls_token": np.full((1, 1, 8), rng.choice((np.nan, np.inf, 1)), np.float32)}))
    kind = rng.choice(("header", "size", "whole", "cut", "link", "pickle", "sparse", "offsets"))
    if kind == "header":
        data[:8] = struct.pack("<Q", rng.choice((10**9, 2**62, 2**64 - 1, 0)))
    elif kind == "size":
        data = bytearray(data.replace(b"[1,1,8]", b"[9,9,9]"))
    elif kind == "cut":
        del data[rng.randrange(len(data)) :]
    elif kind == "offsets":
        data = bytearray(data.replace(b"[0,32]", b"[8,32]"))
    weights = folder / ("pytorch_model.bin" if kind == "pickle" else "model.safetensors")
    if kind == "link":
        weights.symlink_to("/etc/passwd")
    else:
        weights.write_bytes(data)
    if kind == "sparse":
        with weights.open("r+b") as file:
            file.truncate(2**40)
    return lambda _: model(folder)


def packs(path: Path, rng: random.Random) -> Read:
    """Members that lead elsewhere, are compressed, or are not what the manifest says."""
    place = path.with_suffix(".pack")
    names = rng.choice(
        (["../../evil"], ["/etc/evil"], ["store.db", "store.db"], [], ["store.db"] * 1000, ["blobs/" + "0" * 64])
    )
    size = rng.choice((3, 2**40, -1, "3"))
    rows = [{"name": name, "bytes": size, "sha256": "0" * 64} for name in names]
    manifest = {"format": rng.choice(("evodevo.pack/1", "x")), "files": rng.choice((rows, {}, None))}
    with contextlib.suppress(UserWarning), zipfile.ZipFile(place, "w", rng.choice((0, 8))) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name in names:
            archive.writestr(name, b"abc")
    data = bytearray(place.read_bytes())
    if rng.random() < 0.5:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    place.write_bytes(data)
    return lambda _: command("store", "unpack", "FILE", str(path.with_suffix(".new")))(place)


HOSTILE: dict[str, Hostile] = {
    "odd places": odd_places,
    "packed text": packed_text,
    "texts": texts,
    "tables": tables,
    "json": json_texts,
    "settings": settings,
    "arrays": arrays,
    "images": images,
    "parquet": parquets,
    "tokenizers": tokenizers,
    "models": models,
    "packs": packs,
}


def read_hostile(case: Case) -> None:
    """One file, read once."""
    kind = list(HOSTILE)[case.number % len(HOSTILE)]
    os.chdir(case.folder)
    read = HOSTILE[kind](case.folder / "given", case.rng)
    out, words = io.StringIO(), io.StringIO()
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(words):
        try:
            read(case.folder)
        except SystemExit as error:
            code = int(error.code or 0)
        except Exception as error:
            code = explain(error, [])
    seconds = time.monotonic() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    largest = 1024 * max(grown, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    said = words.getvalue().strip()
    case.note(kind=kind, code=int(code), seconds=round(seconds, 1), mebibytes=largest >> 20, words=said[-400:])
    case.count(kind, "read" if code == 0 else f"exit {int(code)}")
    documented = code in set(ExitCode) - {ExitCode.INTERNAL}
    case.promise("the exit code is a documented one", "" if documented else f"{code}: {said}")
    lines = [line for line in said.splitlines() if line.startswith("evodevo: ")]
    plain = "Traceback" not in said and (code == 0 or (len(lines) == 1 and len(lines[0]) < 1200))
    case.promise("stderr is one sentence", "" if plain else said or "nothing")
    case.promise(f"it takes at most {SECONDS:g} seconds", "" if seconds <= SECONDS else f"{seconds:.1f} s")
    case.promise(f"it takes at most {MEMORY >> 30} GiB", "" if largest <= MEMORY else f"{largest:,}")


if __name__ == "__main__":
    Campaign("files", read_hostile, seconds=90.0, imports=("evodevo.cli.application", "evodevo.runs.evolve")).main(
        __doc__, cases=120, minutes=10.0
    )
