"""The data sets on which growing is tried: which task reads each, and how much may be computed.

A folder is known by its name; where it lies is the user's. Without one, questions about images of digits are generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

SEEDS, FEW_SEEDS = 5, 3
TERA = 1e12


@dataclass(frozen=True)
class ProofTrial:
    """One data set in the experiment.

    Attributes:
        name: name in titles.
        task: a row of the table of tasks.
        settings: settings of that task. Its ``architecture`` split is the fourth, which growth alone uses.
        inputs, outputs: inputs and outputs about as the task has them; opponents are made as large as the zoo for
            these.
        flops: FLOPs of one training in the size ``full``, growth included.
        seeds: number of seeds of each arm in the size ``full``.
        direction_only: whether it is too small to decide: two arms, fewer seeds.
    """

    name: str
    task: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    flops: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = SEEDS
    direction_only: bool = False


# FLOPs: as many as the fixed zoo of six families computes in about 50 seconds on one core of the machine that
# docs/results.md names; see there.
GENERATED = ProofTrial(
    name="digits_questions",
    task="digits_questions",
    inputs=(
        InputSpec("image", "image", height=8, width=8, channels=1),
        InputSpec("question", "tokens", length=24, vocabulary=256),
    ),
    outputs=(OutputSpec("answer", "class", 2),),
    flops=0.5 * TERA,
)


def easy_vqa(folder: Path) -> ProofTrial:
    """Questions about a shape, 13 answers; images at 24 x 24. Four splits by equal image."""
    return ProofTrial(
        name="easy_vqa",
        task="table",
        settings={
            "data": str(folder / "train.jsonl.gz"),
            "test": str(folder / "test.jsonl.gz"),
            "images": str(folder / "train_images.npz"),
            "test_images": str(folder / "test_images.npz"),
            "image": "image",
            "text": "question",
            "label": "answer",
            "size": [24, 24],
        },
        inputs=(
            InputSpec("image", "image", height=24, width=24, channels=3),
            InputSpec("text", "tokens", length=10, vocabulary=64),
        ),
        outputs=(OutputSpec("label", "class", 13),),
        flops=0.8 * TERA,
    )


def fashion_mnist(folder: Path) -> ProofTrial:
    """Ten kinds of clothes, 28 x 28."""
    return ProofTrial(
        name="fashion_mnist",
        task="images",
        settings={"data": str(folder), "architecture": 0.1},
        inputs=(InputSpec("image", "image", height=28, width=28, channels=1),),
        outputs=(OutputSpec("class", "class", 10),),
        flops=0.8 * TERA,
    )


def sib200_6(folder: Path) -> ProofTrial:
    """Seven topics of English sentences; 701 to learn from."""
    return ProofTrial(
        name="sib200_6",
        task="table",
        settings={
            "data": str(folder / "train.jsonl.gz"),
            "validation": str(folder / "dev.jsonl.gz"),
            "test": str(folder / "test.jsonl.gz"),
            "text": "en",
            "label": "label",
        },
        inputs=(InputSpec("text", "tokens", length=59, vocabulary=4096),),
        outputs=(OutputSpec("label", "class", 7),),
        flops=0.4 * TERA,
        seeds=FEW_SEEDS,
        direction_only=True,
    )


def nlvr(folder: Path) -> ProofTrial:
    """Whether a sentence is true of a picture; 1990 to learn from."""
    return ProofTrial(
        name="nlvr",
        task="table",
        settings={
            "data": str(folder / "train.jsonl.gz"),
            "test": str(folder / "dev.jsonl.gz"),
            "images": str(folder / "train_images.npz"),
            "test_images": str(folder / "dev_images.npz"),
            "image": "example",
            "text": "sentence",
            "match": "label",
        },
        inputs=(
            InputSpec("image", "image", height=64, width=64, channels=3),
            InputSpec("text", "tokens", length=21, vocabulary=256),
        ),
        outputs=(OutputSpec("match", "class", 2),),
        flops=0.8 * TERA,
        seeds=FEW_SEEDS,
        direction_only=True,
    )


TRIALS: Mapping[str, Callable[[Path], ProofTrial]] = {
    "easy_vqa": easy_vqa,
    "fashion_mnist": fashion_mnist,
    "sib200_6": sib200_6,
    "nlvr": nlvr,
}


def trial_of(data: str) -> ProofTrial:
    """The data set that lies in a folder.

    Raises:
        UsageError: a folder of another name; its task has to be named then.
    """
    folder = Path(data)
    name = folder.resolve().name
    if name not in TRIALS:
        raise UsageError(
            f"the folder {data!r} is none of {', '.join(TRIALS)}. Give one of these, or --task and its settings too."
        )
    return TRIALS[name](folder)
