"""Networks of a model that evodevo has fitted, in plain PyTorch; ``predict.py`` reads the rows and calls them.

``arrays.safetensors`` holds the parameters by the names that they have here, after the network's place in the model.
Zoos of modules have files of their own, ``zoo_1.py`` and so on.

Legend: B samples, L words, M terms of a sample, G numbers, C classes or labels.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WIDEST, PIECE, GROUP = 256, 8, 8


def logits(facts: dict[str, Any], arrays: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Logits (B, C).

    Args:
        facts: Description of the network, from ``model.json``; the network is kept in it after the first call.
        arrays: Parameters by name.
        given: Inputs by name.
    """
    if "built" not in facts:
        facts["built"] = (Plain if facts["structure"]["plain"] else ZooFile)(facts, arrays).eval()
    with torch.no_grad():
        found = facts["built"]({name: torch.from_numpy(array) for name, array in given.items()})
    return found.double().numpy()


def _fill(network: nn.Module, arrays: Mapping[str, Any]) -> None:
    network.load_state_dict({name: torch.tensor(arrays[name]) for name in network.state_dict()})


def _beside(name: str) -> Any:
    """A module that lies beside this file, also where the folder is not on Python's path."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ZooFile(nn.Module):
    """A network with a file of its own."""

    def __init__(self, facts: dict[str, Any], arrays: Mapping[str, Any]) -> None:
        super().__init__()
        written = facts["written"]
        self.network = _beside(written["file"]).Model()
        self.inputs = written["inputs"]
        _fill(self.network, {**arrays, **written["computed"]})

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Logits (B, C). Samples that lack the same inputs are computed together; the file takes None for these."""
        optional = [name for name in self.inputs if f"{name}/present" in batch]
        if not optional:
            return self._answer(batch, slice(None), ())
        there = torch.stack([batch[f"{name}/present"] for name in optional], 1)
        found: Tensor | None = None
        for pattern in sorted(set(map(tuple, there.tolist()))):
            rows = (there == torch.tensor(pattern)).all(1)
            absent = [name for name, present in zip(optional, pattern, strict=True) if not present]
            answer = self._answer(batch, rows, absent)
            found = answer.new_zeros(len(rows), answer.shape[1]) if found is None else found
            found[rows] = answer  # one answer for all, where these samples have no input at all
        assert found is not None
        return found

    def _answer(self, batch: Mapping[str, Tensor], rows: Any, absent: Any) -> Tensor:
        given = [None if name.split("/")[0] in absent else batch[name][rows] for name in self.inputs]
        answer: Tensor = self.network(*given)[0]
        return answer


class Plain(nn.Module):
    """Encoders, one per kind of input, and a head."""

    def __init__(self, facts: dict[str, Any], arrays: Mapping[str, Any]) -> None:
        super().__init__()
        structure, reading, size = facts["structure"]["plain"], facts["reading"], facts["classes"]
        width = structure["width"]
        encoders: dict[str, Any] = {}
        terms = 0 if reading["text"] is None else len(reading["text"]["terms"]["terms"])
        if structure["image"]:
            if structure["image"] == "root":
                encoders["image"] = ImagesOfRoot(structure["root"])
            elif structure["image"] == "patches":
                encoders["image"] = Patches(reading["image"], width)
            else:
                encoders["image"] = Images(reading["image"], structure["channels"], structure["fine"])
        if structure["text"]:
            words = len(reading["text"]["words"]) + 2
            encoders["text"] = TermSum(terms, width) if structure["text"] == "terms" else RecurrentText(words, width)
        if structure["numbers"]:
            kind = {"mlp": Mlp, "residual": Residual, "pieces": NumberPieces}[structure["numbers"]]
            encoders["numbers"] = kind(reading["numbers"], width)
        self.encoders = nn.ModuleDict(encoders)
        inner = wide = sum(encoder.width for encoder in encoders.values())
        self.between = None
        if len(encoders) > 1:
            inner = structure["hidden"]
            self.between = nn.Sequential(nn.LayerNorm(wide), nn.Linear(wide, inner), nn.SiLU())
        self.head = nn.Linear(inner, size)
        self.direct = TermSum(terms, size) if structure["text"] == "terms" else None
        _fill(self, arrays)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Logits (B, C)."""
        x = torch.cat([encoder(batch) for encoder in self.encoders.values()], 1)
        y: Tensor = self.head(x if self.between is None else self.between(x))
        return y if self.direct is None else y + self.direct(batch)


class TermSum(nn.Module):
    """A sum of embeddings of words and of pairs of words by their weights; a learned vector where there is no text."""

    def __init__(self, terms: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.EmbeddingBag(terms + 1, width, mode="sum", padding_idx=0)
        self.missing = nn.Parameter(torch.zeros(width))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        summed = self.embedding(batch["terms"], per_sample_weights=batch["terms/weight"])
        return torch.where(batch["text/present"][:, None], summed, self.missing)


class RecurrentText(nn.Module):
    """An LSTM over the words, both ways: mean and maximum over the words."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.width = 4 * width
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.recurrence = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.missing = nn.Parameter(torch.zeros(self.width))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        lengths = batch["text/mask"].sum(1).clamp(min=1)  # a text without words is read as one, and replaced below
        longest = int(lengths.max())
        x = self.embedding(batch["text"][:, :longest])
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h = pad_packed_sequence(self.recurrence(packed)[0], batch_first=True, total_length=longest)[0]
        real = batch["text/mask"][:, :longest, None]
        mean, highest = (h * real).sum(1) / lengths[:, None], h.masked_fill(~real, -1).amax(1)
        return torch.where(batch["text/present"][:, None], torch.cat([mean, highest], 1), self.missing)


def _layers(before: int, width: int) -> nn.Sequential:
    # nn.Identity stands where training has dropout, so that the parameters keep their names.
    parts = [nn.Linear(before, width), nn.SiLU(), nn.Identity()]
    return nn.Sequential(*parts, nn.Linear(width, width), nn.SiLU(), nn.Identity())


def _numbers(reading: dict[str, Any]) -> int:
    return len(reading["centre"]) + len(reading["indicated"])


class Mlp(nn.Module):
    """Two layers on scaled numbers."""

    def __init__(self, reading: dict[str, Any], width: int) -> None:
        super().__init__()
        self.width = min(WIDEST, 4 * width)
        self.layers = _layers(_numbers(reading), self.width)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        y: Tensor = self.layers(batch["vectors"])
        return y


class Residual(nn.Module):
    """Two residual blocks on scaled numbers."""

    def __init__(self, reading: dict[str, Any], width: int) -> None:
        super().__init__()
        self.width = wide = min(WIDEST, 2 * width)
        self.first = nn.Linear(_numbers(reading), wide)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(wide), nn.Linear(wide, 2 * wide), nn.ReLU(), nn.Identity(), nn.Linear(2 * wide, wide)
            )
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(wide)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        x = self.first(batch["vectors"])
        for block in self.blocks:
            x = x + block(x)
        return F.relu(self.norm(x))


class NumberPieces(nn.Module):
    """Each number as its place in each interval between quantiles, 0 to 1; a linear map per column; two layers."""

    def __init__(self, reading: dict[str, Any], width: int) -> None:
        super().__init__()
        self.width = min(WIDEST, 4 * width)
        self.edges = [torch.tensor(column) for column in reading["edges"]]
        columns, most = len(self.edges), max(map(len, self.edges)) - 1
        self.weight = nn.Parameter(torch.zeros(columns, most, PIECE))
        self.bias = nn.Parameter(torch.zeros(columns, PIECE))
        self.layers = _layers(columns * PIECE, self.width)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        parts = []
        for x, edges, weight in zip(batch["vectors"].T, self.edges, self.weight, strict=True):
            places = ((x[:, None] - edges[:-1]) / edges.diff().clamp(min=1e-6)).clamp(0, 1)
            parts.append(places @ weight[: len(edges) - 1])
        y: Tensor = self.layers(F.relu(torch.stack(parts, 1) + self.bias).flatten(1))
        return y


class ConvolutionBlock(nn.Module):
    """Norm, convolution, norm, convolution, beside a shortcut."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(width // GROUP, width) for width in (before, channels))
        self.first = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        changes = stride > 1 or before != channels
        self.shortcut = nn.Conv2d(before, channels, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.norms[0](x))
        y: Tensor = self.second(F.relu(self.norms[1](self.first(h))))
        around: Tensor = self.shortcut(h)
        return y + around


class Patches(nn.Module):
    """A linear map of each patch, ReLU, and a linear map of them all; a learned vector where there is no image."""

    def __init__(self, reading: dict[str, Any], width: int) -> None:
        super().__init__()
        height, broad, colours = reading["shape"]
        self.mean, self.deviation = (torch.tensor(reading[name])[:, None, None] for name in ("mean", "deviation"))
        side = -(-max(height, broad) // 8)
        rows, columns = -(-height // side), -(-broad // side)
        self.beyond = (0, columns * side - broad, 0, rows * side - height)
        self.patches = nn.Conv2d(colours, width, side, side)
        self.positions = nn.Linear(width * rows * columns, width)
        self.width = width
        self.missing = nn.Parameter(torch.zeros(width))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        x = batch["image"].permute(0, 3, 1, 2).float() / 255
        x = F.relu(self.patches(F.pad((x - self.mean) / self.deviation, self.beyond)))
        vectors = F.relu(self.positions(x.flatten(1)))
        return torch.where(batch["image/present"][:, None], vectors, self.missing)


class ImagesOfRoot(nn.Module):
    """The convolutions of ``package_root.py``; a learned vector where there is no image."""

    def __init__(self, structure: dict[str, Any]) -> None:
        super().__init__()
        self.root = _beside("package_root").Model()
        self.width = structure["widths"][-1] * structure["grid"] ** 2
        self.missing = nn.Parameter(torch.zeros(self.width))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        return torch.where(batch["image/present"][:, None], self.root(batch["image"]), self.missing)


class Images(nn.Module):
    """Residual convolutions and the mean over positions; a learned vector where there is no image."""

    def __init__(self, reading: dict[str, Any], channels: int, fine: bool) -> None:
        super().__init__()
        height, width, colours = reading["shape"]
        self.mean, self.deviation = (torch.tensor(reading[name])[:, None, None] for name in ("mean", "deviation"))
        stride, side = 1, max(height, width)
        while side > (32 if fine else 16) * 1.5:
            stride, side = 2 * stride, -(-side // 2)
        self.stem = nn.Conv2d(colours, channels, stride + 2, stride, (stride + 1) // 2, bias=False)
        blocks, before = [], channels
        for stage in range(3):
            blocks.append(ConvolutionBlock(before, channels << stage, 2 if stage and side > 2 else 1))
            side = -(-side // 2) if stage else side
            before = channels << stage
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(before // GROUP, before)
        self.width = before
        self.missing = nn.Parameter(torch.zeros(before))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        x = batch["image"].permute(0, 3, 1, 2).float() / 255
        x = self.stem(((x - self.mean) / self.deviation).contiguous(memory_format=torch.channels_last))
        pooled = F.relu(self.norm(self.blocks(x))).mean((2, 3))
        return torch.where(batch["image/present"][:, None], pooled, self.missing)
