"""Features of texts and images by pretrained models of transformers: the mean over the positions of the last layer.

The models lie in folders beside this file; nothing is downloaded, and no code of them is run.

Legend: n samples, D channels of a model.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from torch.nn import functional as F

BATCH = 32


def numbers(tower: dict[str, Any], texts: list[list[str]], images: list[Any], present: list[Any]) -> list[Any]:
    """Features (n, D) of each column that the tower reads, NaN where there is nothing to read.

    Args:
        tower: Facts of the tower in ``model.json``.
        texts: n texts for each column of texts.
        images: Bytes (n, height, width, channels) for each column of images.
        present: Whether each image is there, (n,) for each column.
    """
    found = [of_texts(tower, cells) for cells in texts] if "tokens" in tower["reads"] else []
    if "image" in tower["reads"]:
        for pixels, there in zip(images, present, strict=True):
            found.append(np.where(there[:, None], of_images(tower, pixels), np.nan))
    return found


def of_texts(tower: dict[str, Any], texts: list[str]) -> Any:
    """Features (n, D) of texts, with the special tokens of the model around each."""
    how, network = tower["texts"], model(tower["path"], tower["texts"]["model"])
    ids = [tokens(tower["path"], text)[: how["longest"]] for text in texts]
    found = np.full((len(texts), how["width"]), np.nan)
    for place, own in enumerate(ids):
        if own:
            given = torch.tensor([[*how["prefix"], *own, *how["suffix"]]])
            mask = torch.ones_like(given)
            with torch.no_grad():
                hidden = network(input_ids=given, attention_mask=mask).last_hidden_state
            found[place] = hidden[0].mean(0).numpy()
    return found


def of_images(tower: dict[str, Any], images: Any) -> Any:
    """Features (n, D) of images, made as large and as bright as the model wants them."""
    how, network = tower["images"], model(tower["path"], tower["images"]["model"])
    parts = [np.zeros((0, how["width"]))]
    for begin in range(0, len(images), BATCH):
        pixels = prepared(how, torch.from_numpy(np.ascontiguousarray(images[begin : begin + BATCH])))
        with torch.no_grad():
            parts.append(network(pixel_values=pixels).last_hidden_state.mean(1).numpy())
    return np.concatenate(parts)


def prepared(how: dict[str, Any], raw: Any) -> Any:
    """Images (n, height, width, channels) of bytes as (n, channels, height, width) of the model."""
    pixels = raw.permute(0, 3, 1, 2).float()
    size = how["size"]
    if len(size) == 1:  # of the shorter edge
        size = [int(size[0] * edge / min(pixels.shape[2:])) for edge in pixels.shape[2:]]
    pixels = resized(pixels, size, how["bicubic"])
    if how["crop"] is not None:
        high, wide = (min(edge, kept) for edge, kept in zip(pixels.shape[2:], how["crop"], strict=True))
        top, left = (pixels.shape[2] - high) // 2, (pixels.shape[3] - wide) // 2
        pixels = pixels[:, :, top : top + high, left : left + wide]
    pixels = resized(pixels, how["image"], how["bicubic"]) / 255
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (how["mean"], how["std"]))
    return (pixels.expand(-1, how["channels"], -1, -1) - mean) / std


def resized(pixels: Any, size: list[int], bicubic: bool) -> Any:
    """Pixels of another height and width, rounded to whole bytes."""
    if list(pixels.shape[2:]) == list(size):
        return pixels
    mode = "bicubic" if bicubic else "bilinear"
    return F.interpolate(pixels, list(size), mode=mode, antialias=True, align_corners=False).round().clamp(0, 255)


def tokens(path: str, text: str) -> list[int]:
    """Ids of a text, without special ones."""
    return list(tokenizer(path).encode(text, add_special_tokens=False).ids)


@functools.cache
def tokenizer(path: str) -> Any:
    """The tokenizer in a folder."""
    found = Tokenizer.from_file(str(Path(__file__).parent / path / "tokenizer.json"))
    found.no_padding()
    found.no_truncation()
    return found


@functools.cache
def model(path: str, name: str) -> Any:
    """The model of a class of transformers in a folder."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder = Path(__file__).parent / path
    found = getattr(transformers, name).from_pretrained(
        folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
    )
    return found.eval()
