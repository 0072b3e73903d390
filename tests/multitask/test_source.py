"""A path of a system as one file of plain PyTorch: its classes answer as the components do, shared ones stored once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.export.image_input import ImageInput
from evodevo.export.text_input import TextInput
from evodevo.export.verify import probes
from evodevo.multitask.paths.blocks_spec import EMBEDDING
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.text.model import MASK, TOKENS, TextPath
from evodevo.multitask.paths.text.reading import read_texts, tokenizer_of
from evodevo.multitask.run.dense_export import DensePath
from evodevo.multitask.source.program import path_program
from evodevo.testing.exporters import (
    IMAGE,
    ROWS,
    TEXTS,
    convolution_path,
    mlp_multipath,
    mlp_path,
    multipath,
    subword_texts,
    text_multipath,
    text_path,
    vision_path,
)

SUBWORDS = subword_texts()
BPE = SUBWORDS.tokenizer
LAYERS = {"encoderblock_0": {"kind": "mlp", "hidden": 6}}
NETWORKS: dict[str, Any] = {
    "path": lambda: vision_path(0),
    "grey path": lambda: vision_path(1, channels=1),
    "larger path": lambda: vision_path(2, layers=2, image_size=16),
    "relu": lambda: vision_path(3, activation="relu"),
    "layer of the library": lambda: vision_path(4, layers=2, blocks=LAYERS),
    "convolutions": convolution_path,
    "grey convolutions": lambda: convolution_path(1, channels=1, inner=1.5, image_size=20, grid=3, stride=1),
    "adapters": lambda: convolution_path(2, adapters=0.5),
    "multipath": multipath,
    "skipping multipath": lambda: multipath(skip_below=0.3),
    "sum": lambda: multipath(aggregation="sum"),
}


def run_path(network: nn.Module) -> tuple[nn.Module, dict[str, str]]:
    """The network of its source, and the names that share a tensor with another one."""
    program = path_program(DensePath(network))
    assert max(map(len, program.text.splitlines())) <= 120
    names: dict[str, Any] = {"__file__": "model.py"}
    exec(compile(program.text, "model.py", "exec"), names)
    model, shared = names["Model"](), names["SHARED"]
    stored = dict(program.weights)
    model.load_state_dict(stored | {name: stored[first] for name, first in shared.items()}, assign=True)
    return model.eval(), shared


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@torch.no_grad()
def test_the_source_answers_as_the_path(make: Any) -> None:
    network = make()
    model, _ = run_path(network)
    for image in (IMAGE, ImageInput(11, 7, 1)):
        batch = torch.from_numpy(probes(image, (5,))[0])
        wanted = DensePath(network)(batch)
        torch.testing.assert_close(model(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize(
    "network",
    [mlp_path(), mlp_path(1, indicated=0, layers=0), mlp_path(2, inner=1.5), mlp_multipath()],
    ids=["path", "no blocks, no indicators", "wider blocks", "multipath"],
)
@torch.no_grad()
def test_the_source_of_rows_answers_as_the_path(network: nn.Module) -> None:
    model, _ = run_path(network)
    batch = torch.from_numpy(ROWS.probe(7))
    wanted = DensePath(network)(batch)
    torch.testing.assert_close(model(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


MLP_BLOCK = {"encoderblock_1": {"kind": "mlp", "hidden": 6}}
LSTM_BLOCK = {"encoderblock_0": {"kind": "lstm"}}


@pytest.mark.parametrize(
    ("network", "given"),
    [
        (text_path(), TEXTS),
        (text_path(1, layers=0), TEXTS),
        (text_path(2, blocks=MLP_BLOCK, activation="silu"), TEXTS),
        (text_path(3, blocks=LSTM_BLOCK), TEXTS),
        (text_path(4, length=3), TEXTS),
        (text_multipath(), TEXTS),
        (text_path(5, BPE), SUBWORDS),
        (text_multipath(BPE), SUBWORDS),
    ],
    ids=["path", "no blocks", "mlp", "lstm", "reads less", "multipath", "subwords", "multipath of subwords"],
)
@torch.no_grad()
def test_the_source_of_texts_answers_as_the_path_with_its_own_reader(network: Any, given: TextInput) -> None:
    """Empty, of one letter, longer than the positions, of letters that a cut divides, of the byte NUL."""
    model, _ = run_path(network)
    texts = ["", "a", "the cat sat on the mat" * 9, "größer" * 9, "🙂" * 9, "x\0y"]
    ids = torch.from_numpy(given.encoded(texts))
    if isinstance(network, TextPath):
        wanted = network(as_read(network, texts, given.bytes_read))
    else:
        wanted = network(
            {str(one.reads): as_read(one.module, texts, given.bytes_read) for one in network.paths.values()}
        )
    for answer in (model(ids), DensePath(network)(ids)):
        torch.testing.assert_close(answer, wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    longest = int((ids >= 0).sum(1).max())
    torch.testing.assert_close(model(ids[:, :longest]), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def as_read(path: TextPath, texts: list[str], columns: int) -> dict[str, torch.Tensor]:
    """What the reader of a path in a system makes of texts that a task hands out in so many bytes."""
    data = np.zeros((len(texts), columns), np.int64)
    mask = np.zeros(data.shape, np.bool_)
    for row, text in enumerate(texts):
        raw = np.frombuffer(text.encode(), np.uint8)[:columns]
        data[row, : len(raw)], mask[row, : len(raw)] = raw, True
    tokenizer = tokenizer_of(path.components()[EMBEDDING])  # type: ignore[arg-type]
    return read_texts(path.structure, tokenizer, data, mask)


@pytest.mark.parametrize("given", [TEXTS, SUBWORDS], ids=["bytes", "subwords"])
def test_the_function_that_is_written_reads_texts_as_the_export_does(given: TextInput, tmp_path: Path) -> None:
    """And a path's own reader makes the probes of the texts for which they stand."""
    for name, text in given.beside().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"torch": torch}
    exec(given.function(f'"{tmp_path}/{{}}"'), names)
    texts = ["", "the cat", "größer 東京 🙂" * 9, "a" * 200, "\0"]
    assert names["encoded"](texts).tolist() == given.encoded(texts).tolist()
    sizes = {} if given.tokenizer is None else {"tokenizer": "bpe", "vocabulary": given.tokenizer.vocabulary}
    structure = text_path().structure.changed(length=given.length, **sizes)
    for size in (1, 2, 9):
        probe = given.probe(size)
        read = read_texts(structure, given.tokenizer, *given.decoded(probe))
        assert torch.where(read[MASK], read[TOKENS], -1).tolist() == probe.tolist()


def test_paths_with_different_tokenizers_are_refused() -> None:
    joint = text_multipath()
    other = text_path(5, BPE, classes=0)
    joint.paths["support_1"] = FrozenPath(other, reads="subwords")
    with pytest.raises(UsageError, match=r"different tokenizers; exported are models all of whose paths read the same"):
        DensePath(joint)


def test_what_paths_share_is_stored_once_and_is_one_tensor() -> None:
    network = multipath()
    model, shared = run_path(network)
    assert shared
    assert all(name.startswith("paths.support_1.parts.") for name in shared)
    tensors = dict(model.named_parameters())
    assert all(tensors[name].data_ptr() == tensors[first].data_ptr() for name, first in shared.items())
    weights = path_program(DensePath(network)).weights
    assert not set(weights) & set(shared)
    assert sum(one.numel() for one in weights.values()) == sum(one.numel() for one in network.parameters())


def test_another_network_is_refused_with_one_sentence() -> None:
    with pytest.raises(
        UsageError,
        match=r"^a Linear has no source; exported are paths that read an image, a text or a row of numbers, and mult",
    ):
        path_program(nn.Linear(2, 2))
