"""Checkpoints come back exactly, share what is equal, and refuse everything else."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as save_safetensors
from torch import Tensor, nn

from evodevo import canonical
from evodevo.errors import ExitCode, UnsafeFileError, UsageError
from evodevo.training import checkpoints
from evodevo.training.loop import Cursor, TrainingSnapshot
from evodevo.training.parts import load_part, part_digest, read_tensors, save_part


def _same_weights(a: nn.Module, b: nn.Module) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def _snapshot(model: nn.Module) -> TrainingSnapshot:
    state = {
        name: {"exp_avg": torch.randn_like(p), "exp_avg_sq": torch.rand_like(p), "step": torch.tensor(7.0)}
        for name, p in model.named_parameters()
        if p.requires_grad and not name.startswith("unused")
    }
    curve = {"points": [[24, 2.5], [48, 1.0 / 3.0]], "stride": 1}
    return TrainingSnapshot(
        Cursor.model_validate_json(json.dumps({"seed": 2**62, "step": 7, "tokens": 168, "curve": curve})), state
    )


@pytest.mark.parametrize("width", [8, 160], ids=["all packed", "own blobs"])
def test_everything_comes_back(tiny: Any, memory: Any, width: int) -> None:
    model, other = tiny(0, width=width), tiny(1, width=width)
    snapshot = _snapshot(model)
    envelope = {"space": "backbone", "version": 1, "genes": [[1, 2, 3]]}
    name = checkpoints.save(
        memory,
        model,
        snapshot=snapshot,
        genome=envelope,
        input_specification={"tokenizer": "bytes"},
        attachments={"tokenizer": b"data"},
    )
    checkpoint = checkpoints.load(memory, name)
    checkpoint.restore(other)
    assert _same_weights(model, other)
    found = checkpoint.snapshot(other)
    assert found.cursor == snapshot.cursor
    assert found.optimizer.keys() == snapshot.optimizer.keys()
    for parameter, values in snapshot.optimizer.items():
        assert all(torch.equal(found.optimizer[parameter][key], values[key]) for key in values)
    assert checkpoint.manifest.genome == envelope
    assert checkpoint.manifest.input == {"tokenizer": "bytes"}
    assert checkpoint.attachment("tokenizer") == b"data"
    assert (len({record.blob for record in checkpoint.manifest.parts.values()}) == 1) == (width == 8)


def test_equal_models_are_one_checkpoint_and_equal_parts_one_blob(tiny: Any, memory: Any) -> None:
    model, other = tiny(0, width=160), tiny(1, width=160)
    own = checkpoints.parts_of(model)
    assert set(own) == {".", "embedding", "layers.0", "layers.1", "norm", "unused"}
    assert set(own["."]) == {"gate", "frozen"}
    assert sum(map(len, own.values())) == len(model.state_dict())
    first = checkpoints.save(memory, model)
    assert canonical.dumps(json.loads(memory[first])).encode() == memory[first]
    count = len(memory)
    assert checkpoints.save(memory, tiny(0, width=160)) == first
    assert len(memory) == count
    other.layers[1].load_state_dict(model.layers[1].state_dict())
    other.layers[0].load_state_dict(model.layers[1].state_dict())
    parts = checkpoints.load(memory, checkpoints.save(memory, other)).manifest.parts
    assert parts["layers.0"].blob == parts["layers.1"].blob
    assert parts["layers.1"].blob == checkpoints.load(memory, first).manifest.parts["layers.1"].blob


def test_a_part_of_a_checkpoint_is_the_blob_of_that_module_wherever_it_is_kept(tiny: Any, memory: Any) -> None:
    model = tiny(width=160)
    record = checkpoints.load(memory, checkpoints.save(memory, model)).manifest.parts["layers.0"]
    state = model.layers[0].state_dict()
    turned = {name: state[name].t().contiguous().t() for name in reversed(state)}
    assert record.blob == save_part(memory, turned) == part_digest(state), "order and strides do not count"
    loaded = load_part(memory, record.blob, "a component")
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_tied_tensors_and_other_dtypes_come_back(memory: Any) -> None:
    def build() -> nn.Module:
        model = nn.ModuleDict(
            {"a": nn.Linear(4, 4), "b": nn.Linear(4, 4, bias=False), "c": nn.BatchNorm1d(3).bfloat16()}
        )
        model["b"].weight = model["a"].weight
        return model

    model, other = build(), build()
    checkpoints.load(memory, checkpoints.save(memory, model)).restore(other)
    assert _same_weights(model, other)
    assert other["b"].weight is other["a"].weight  # type: ignore[index]


def test_weights_alone_cannot_be_resumed_and_broken_ones_are_not_kept(tiny: Any, memory: Any) -> None:
    checkpoint = checkpoints.load(memory, checkpoints.save(memory, tiny()))
    with pytest.raises(UsageError, match="weights only"):
        checkpoint.snapshot(tiny())
    with pytest.raises(UsageError, match="no 'tokenizer'"):
        checkpoint.attachment("tokenizer")
    for bad in (math.nan, math.inf, -math.inf):
        model = tiny()
        model.gate.data[0, 0] = bad
        with pytest.raises(UsageError, match=r"'\./gate' holds NaN or infinity"):
            checkpoints.save(memory, model)


# Files from elsewhere


def _header(content: Any, body: bytes = b"", size: int | None = None) -> bytes:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(raw) if size is None else size) + raw + body


def _tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


class _Canary:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("canary",))


def _torch_file() -> bytes:
    stream = io.BytesIO()
    torch.save({"a": torch.ones(1)}, stream)
    return stream.getvalue()


BAD_FILES: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a pickle": lambda: pickle.dumps(_Canary()),
    "a torch file": _torch_file,
    "a header of 2^62 bytes": lambda: _header({}, size=2**62),
    "a header over the limit": lambda: _header(b"{}" + b" " * (4 * 2**20)),
    "no JSON": lambda: _header(b"not json"),
    "a list": lambda: _header([]),
    "a duplicate key": lambda: _header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":1}', b"1234"),
    "NaN in the header": lambda: _header(b'{"a": NaN}'),
    "an overlap": lambda: _header({"a": _tensor([1], 0, 4), "b": _tensor([1], 2, 6)}, b"123456"),
    "an overflowing shape": lambda: _header({"a": _tensor([2**62, 2**62], 0, 4)}, b"1234"),
    "a truncated body": lambda: save_safetensors({"a": torch.ones(9)})[:-1],
    "trailing bytes": lambda: save_safetensors({"a": torch.ones(9)}) + b"!",
    "an unknown dtype": lambda: _header({"a": _tensor([1], 0, 4, "EVIL")}, b"1234"),
    "20,001 empty tensors": lambda: _header({str(i): _tensor([0], 0, 0) for i in range(20_001)}),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_no_safetensors_file_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsafeFileError) as caught:
        read_tensors(BAD_FILES[name](), "the file")
    assert caught.value.exit_code == ExitCode.UNSAFE
    assert not Path("canary").exists()


def _replace_weights(memory: Any, name: str, change: Callable[[dict[str, Tensor]], object]) -> str:
    """The checkpoint with other tensors in its packed blob, under a manifest that names them truly."""
    manifest = json.loads(memory[name])
    blob = manifest["parts"]["norm"]["blob"]
    tensors = read_tensors(memory[blob], "the file")
    change(tensors)
    digest = memory.put_bytes(save_safetensors(tensors))
    for part in manifest["parts"].values():
        part["blob"] = digest
    known = {f"{part}/{tensor}" for part, record in manifest["parts"].items() for tensor in record["tensors"]}
    for extra in sorted(set(tensors) - known):
        manifest["parts"]["norm"]["tensors"].append(extra.removeprefix("norm/"))
    return str(memory.put_bytes(canonical.dumps(manifest).encode()))


CHANGES: dict[str, tuple[Callable[[dict[str, Tensor]], object], str]] = {
    "a missing tensor": (lambda t: t.pop("norm/weight"), "lack the tensor 'weight'"),
    "an extra tensor": (lambda t: t.update({"norm/extra": torch.ones(1)}), "has 'norm.extra'"),
    "a path": (lambda t: t.update({"norm/../../x": torch.ones(1)}), r"has 'norm\.\.\./\.\./x'"),
    "another shape": (lambda t: t.update({"norm/weight": torch.ones(1)}), r"'norm.weight' as \(1,\)"),
    "another dtype": (lambda t: t.update({"norm/weight": torch.ones(8, dtype=torch.float64)}), "float64"),
    "NaN": (lambda t: t["norm/weight"].fill_(math.nan), "NaN or infinity in 'norm.weight'"),
    "infinity": (lambda t: t["norm/weight"].fill_(math.inf), "NaN or infinity in 'norm.weight'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_weights_that_are_not_the_models_are_refused_and_change_nothing(tiny: Any, memory: Any, name: str) -> None:
    change, message = CHANGES[name]
    changed = _replace_weights(memory, checkpoints.save(memory, tiny(0)), change)
    model = tiny(1)
    with pytest.raises(UnsafeFileError, match=message):
        checkpoints.load(memory, changed).restore(model)
    assert _same_weights(model, tiny(1))


def test_a_checkpoint_of_another_model_is_refused(tiny: Any, memory: Any) -> None:
    checkpoint = checkpoints.load(memory, checkpoints.save(memory, tiny(), snapshot=_snapshot(tiny())))
    with pytest.raises(UnsafeFileError):
        checkpoint.restore(tiny(width=16))
    with pytest.raises(UnsafeFileError, match="does not train"):
        checkpoint.snapshot(nn.Linear(2, 2))
    with pytest.raises(UnsafeFileError, match="exp_avg"):
        checkpoint.snapshot(tiny(width=16))


DIGEST = "0" * 64
GOOD: dict[str, Any] = {"format": checkpoints.FORMAT, "parts": {}}
BAD_MANIFESTS: dict[str, bytes] = {
    "empty": b"",
    "a list": b"[]",
    "a pickle": pickle.dumps(_Canary()),
    "another format": json.dumps({**GOOD, "format": "evodevo.checkpoint/2"}).encode(),
    "no parts": json.dumps({"format": checkpoints.FORMAT}).encode(),
    "a class name": json.dumps({**GOOD, "class_path": "os.system"}).encode(),
    "a blob that is a path": json.dumps(
        {**GOOD, "parts": {"a": {"blob": "../x", "packed": False, "tensors": []}}}
    ).encode(),
    "an attachment that is a path": json.dumps({**GOOD, "attachments": {"tokenizer": "/etc/passwd"}}).encode(),
    "a negative step": json.dumps({**GOOD, "cursor": {"seed": 1, "step": -1}}).encode(),
    "true for one": json.dumps({**GOOD, "cursor": {"seed": 1, "step": True}}).encode(),
    "infinity": b'{"format":"evodevo.checkpoint/1","parts":{},"cursor":{"seed":1,"seconds":1e999}}',
    "depth": b"[" * 100_000,
    "five million bytes": b" " * 5_000_000,
}


def test_what_is_no_manifest_is_refused(memory: Any) -> None:
    assert checkpoints.load(memory, memory.put_bytes(json.dumps(GOOD).encode())).manifest.parts == {}
    for data in BAD_MANIFESTS.values():
        with pytest.raises(UnsafeFileError, match="not a checkpoint"):
            checkpoints.load(memory, memory.put_bytes(data))


def test_no_unsafe_loader_is_named_in_this_room() -> None:
    room = Path(checkpoints.__file__).parent
    text = "".join(path.read_text() for path in [*room.glob("*.py"), *(room.parent / "tasks").glob("*.py")])
    for word in ("torch.load(", "import pickle", "pickle.load", "allow_pickle=True", "eval(", "exec("):
        assert word not in text.replace(".eval()", "")
