"""The command that trained the roots of the package: ``python -m evodevo.multitask.roots.training --data FOLDER``.

One path of convolutions learns several sets of characters and clothes together, a step of one after a step of the
other, each with a head of its own, which is thrown away. Images are moved, scaled, turned and inverted by chance, so
that ink may be dark or bright. Characters of fonts are drawn by Pillow from the font files that are given.

Legend: B samples, S pixels of a side.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.convolution.model import ConvolutionPath, build_component
from evodevo.multitask.paths.convolution.spec import PRESETS
from evodevo.multitask.roots.files import STRUCTURE

SIDE, BATCH, RATE, MOMENTUM, WARMUP = 32, 64, 0.1, 0.9, 0.05
TURN, SCALE, MOVE = 0.15, 0.15, 0.1
"""Largest change by chance: radians, share of the size, share of the side."""
SCRIPTS = ((0x30, 0x3A), (0x41, 0x5B), (0x61, 0x7B), (0x391, 0x3CA), (0x410, 0x450), (0x531, 0x587), (0x10D0, 0x10F1))
"""Ranges of characters: digits, Latin, Greek, Cyrillic, Armenian, Georgian."""


@dataclass(frozen=True)
class TrainingSet:
    """Images (N, 1, S, S) in [-1, 1] with bright ink, and classes (N,)."""

    name: str
    images: Tensor
    classes: Tensor

    @property
    def count(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1


def stored_set(folder: Path) -> TrainingSet:
    """The training split of a folder with ``train.npz``: ``x`` (N, height, width) bytes, ``y`` (N,)."""
    with np.load(folder / "train.npz") as file:
        images = torch.from_numpy(file["x"])[:, None].float()
        _, classes = np.unique(file["y"], return_inverse=True)
    resized = F.interpolate(images, (SIDE, SIDE), mode="bilinear", antialias=True)
    return TrainingSet(folder.name, resized / 127.5 - 1, torch.from_numpy(classes).long())


def divided(one: TrainingSet, share: float, seed: int) -> tuple[TrainingSet, TrainingSet]:
    """A set without a share of its images, drawn by chance, and those images as they are."""
    order = torch.randperm(len(one.images), generator=torch.Generator().manual_seed(seed))
    held = round(share * len(order))
    return _rows(one, order[held:]), _rows(one, order[:held])


def _rows(one: TrainingSet, rows: Tensor) -> TrainingSet:
    return TrainingSet(one.name, one.images[rows], one.classes[rows])


def drawn_set(fonts: Sequence[Path]) -> TrainingSet:
    """Each character of ``SCRIPTS`` in each font that has it."""
    characters = [chr(code) for first, last in SCRIPTS for code in range(first, last)]
    images, classes = [], []
    for file in fonts:
        font = ImageFont.truetype(str(file), 26)
        missing = font.getmask("\uffff").getbbox()
        for number, character in enumerate(characters):
            box = font.getbbox(character)
            if font.getmask(character).getbbox() in (None, missing):
                continue
            picture = Image.new("L", (SIDE, SIDE))
            corner = ((SIDE - box[0] - box[2]) / 2, (SIDE - box[1] - box[3]) / 2)
            ImageDraw.Draw(picture).text(corner, character, fill=255, font=font)
            images.append(np.asarray(picture))
            classes.append(number)
    _, numbers = np.unique(classes, return_inverse=True)
    pixels = torch.from_numpy(np.stack(images))[:, None].float() / 127.5 - 1
    return TrainingSet("fonts", pixels, torch.from_numpy(numbers).long())


def changed(images: Tensor, chance: torch.Generator) -> Tensor:
    """Images (B, 1, S, S) moved, scaled, turned, and inverted one time out of two."""

    def uniform(most: float) -> Tensor:
        return (torch.rand(len(images), generator=chance) * 2 - 1) * most

    angle, across, down = uniform(TURN), 1 + uniform(SCALE), 1 + uniform(SCALE)
    top = torch.stack([angle.cos() * across, -angle.sin() * down, uniform(2 * MOVE)], 1)
    low = torch.stack([angle.sin() * across, angle.cos() * down, uniform(2 * MOVE)], 1)
    grid = F.affine_grid(torch.stack([top, low], 1), list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    sign = torch.where(torch.rand(len(images), 1, 1, 1, generator=chance) < 0.5, 1.0, -1.0)
    return moved * sign


def trained(
    sets: Sequence[TrainingSet], preset: str, samples: int, seed: int, held: Sequence[TrainingSet] = ()
) -> ConvolutionPath:
    """A headless path that has learned all sets together.

    Args:
        sets: each gets as many steps.
        preset: row of ``PRESETS``.
        samples: training samples in all.
        seed: seed of weights, order and changes.
        held: for each set images that it did not learn, of which the accuracy is printed at the end; none for no look.
    """
    structure = PRESETS[preset]
    path = ConvolutionPath.fresh(structure, seed).train()
    counts = [max(one.count, other.count) for one, other in zip(sets, held or sets, strict=True)]
    heads = nn.ModuleList(build_component(structure.changed(classes=count), HEAD, seed) for count in counts)
    parameters = [*path.parameters(), *heads.parameters()]
    optimizer = torch.optim.SGD(parameters, RATE, MOMENTUM, nesterov=True)
    steps, chance, lost = samples // BATCH, torch.Generator().manual_seed(seed), [0.0] * len(sets)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / (WARMUP * steps)) * (1 + math.cos(math.pi * step / steps)) / 2
        which = step % len(sets)
        one = sets[which]
        rows = torch.randint(len(one.images), (BATCH,), generator=chance)
        images = changed(one.images[rows], chance).expand(-1, structure.channels, -1, -1)
        optimizer.zero_grad()
        loss = F.cross_entropy(heads[which](path(images)), one.classes[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        lost[which] = 0.95 * lost[which] + 0.05 * float(loss.detach())
        if step % 250 == 249:
            told = ", ".join(f"{one.name} {value:.3f}" for one, value in zip(sets, lost, strict=True))
            print(f"{step + 1} of {steps} steps, {time.process_time():.0f} CPU s: {told}", flush=True)
    path.eval()
    if held:
        right = [accuracy(path, head.eval(), one) for head, one in zip(heads, held, strict=True)]
        told = ", ".join(f"{one.name} {value:.4f}" for one, value in zip(held, right, strict=True))
        print(f"accuracy on images that were held out: {told}; mean {sum(right) / len(right):.4f}", flush=True)
    return path


@torch.no_grad()
def accuracy(path: ConvolutionPath, head: nn.Module, one: TrainingSet) -> float:
    """Share of the images, unchanged and with bright ink, that a path with a head gives their class."""
    batches = torch.split(one.images, 256)
    found = [head(path(images.expand(-1, path.structure.channels, -1, -1))).argmax(-1) for images in batches]
    return float((torch.cat(found) == one.classes).float().mean())


def save(path: ConvolutionPath, file: Path) -> None:
    """Write the weights of a headless path, each as ``role.name``, and its structure."""
    weights = {name.removeprefix("parts."): tensor.contiguous() for name, tensor in path.state_dict().items()}
    save_file(weights, file, metadata={STRUCTURE: json.dumps(path.structure.model_dump(mode="json"))})


def main() -> None:
    """Train a root and write it."""
    parser = argparse.ArgumentParser(description="Train a root on several sets together.")
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each set")
    parser.add_argument("--sets", default="fashion_mnist,omniglot_small1,mnist10k", help="folders of it")
    parser.add_argument(
        "--fonts", default="/usr/share/fonts/truetype/dejavu", help="folder of font files; empty for none"
    )
    parser.add_argument("--preset", default="small", choices=list(PRESETS))
    parser.add_argument("--samples", type=int, default=128_000, help="training samples")
    parser.add_argument("--held-out", type=float, default=0.05, help="share of each set that only judges")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", type=Path, required=True, help="file to write, .safetensors")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = [stored_set(options.data / name) for name in options.sets.split(",")]
    if options.fonts:
        sets.append(drawn_set(sorted(Path(options.fonts).glob("*.ttf"))))
    for one in sets:
        print(f"{one.name}: {len(one.images)} images of {one.count} classes", flush=True)
    parts = [divided(one, options.held_out, options.seed) for one in sets] if options.held_out else []
    learned = [one for one, _ in parts] or sets
    path = trained(learned, options.preset, options.samples, options.seed, [one for _, one in parts])
    save(path, options.to)
    print(f"{options.to}: {options.to.stat().st_size} bytes, {time.process_time():.0f} CPU s in all")


if __name__ == "__main__":
    main()
