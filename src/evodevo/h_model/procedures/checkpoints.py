"""Small pretrained encoders made here, for a machine without any: BERT by masked language modelling on given texts.

They are saved as Hugging Face models, so that whatever takes a pretrained layer takes one of theirs
(docs/spec/h_model.md#pretrained-layers).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo import canonical
from evodevo.errors import DataError, UsageError, missing_extra
from evodevo.operators.pretrained.files import WEIGHTS
from evodevo.operators.pretrained.layers import quiet
from evodevo.randomness import generator, integer_seed
from evodevo.tasks.text.tokenizers import Tokenizer, hugging_face_json
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings

FORMAT = "evodevo.donor/1"
RECORD = "donor.json"
MASKED = 0.15
UNTOUCHED, REPLACED = 0.1, 0.1  # of the masked tokens (Devlin et al. 2019, 3.1); the others show the mask
IGNORED = -100


class DonorIsMadeError(Exception):
    """Another process is just pretraining this donor."""


def pretrain_donor(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    *,
    width: int,
    layers: int,
    heads: int,
    steps: int,
    seed: int,
    folder: Path,
    length: int = 64,
    batch: int = 32,
    learning_rate: float = 1e-3,
    report: Callable[[int, float], None] | None = None,
    wait: bool = True,
) -> Path:
    """A BERT encoder of these sizes, trained on these texts; an equal one that is there already is taken.

    Processes that request the same donor at once make it once.

    Ids are the tokenizer's, as the task has them; the mask is one more id behind them.

    Args:
        texts: texts of the training split only.
        tokenizer: tokenizer of the task, so that all donors and the task share their ids.
        width, layers, heads: sizes of the encoder; the feed-forward layers have four times the width.
        steps: number of training steps, the budget.
        seed: seed of weights, windows and masks.
        folder: folder of the donors; each has a folder of its own, named by all of the above.
        length: tokens of a window, and the most positions that the donor reads.
        batch: windows of a step.
        learning_rate: highest learning rate of the schedule.
        report: called with the step and its loss in nats.
        wait: whether to wait for another process that is making it.

    Returns:
        The folder with config.json, model.safetensors and tokenizer.json.

    Raises:
        UsageError: sizes that do not fit.
        DataError: texts too short for one window, or a loss that is not finite.
        MissingExtraError: transformers is not installed.
        DonorIsMadeError: another process is just making it, and ``wait`` is false.
    """
    if width % heads:
        raise UsageError(f"{heads} attention heads do not divide the width {width}; take one of its divisors.")
    if steps < 1:
        raise UsageError(f"a donor trained for {steps} steps is none; give at least 1.")
    tokens = tokenizer.encode_documents([text.encode("utf-8") for text in texts]).astype(np.int64)
    if len(tokens) < length:
        raise DataError(f"the texts have {len(tokens)} tokens; a window needs {length}: give more text.")
    made_from = {
        "format": FORMAT,
        "tokens": hashlib.sha256(tokens.tobytes()).hexdigest(),
        "tokenizer": tokenizer.digest,
        "sizes": [width, layers, heads],
        "training": [steps, length, batch, repr(learning_rate)],
        "seed": seed,
    }
    key = canonical.digest(made_from)
    place = folder / key[:32]
    if _finished(place, key):
        return place
    with _alone(place, wait):
        if _finished(place, key):
            return place
        model = _build(tokenizer.vocabulary + 1, width, layers, heads, length, integer_seed(seed, "donor", "weights"))
        losses = _train(model, tokens, tokenizer.vocabulary, steps, length, batch, learning_rate, seed, report)
        record = {**made_from, "key": key, "first_loss": losses[0], "last_loss": losses[-1]}
        _save(model, tokenizer, record, place)
    return place


def mask_tokens(
    windows: NDArray[np.int64], vocabulary: int, draw: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Inputs and targets of masked language modelling (Devlin et al. 2019, 3.1).

    Args:
        windows: (B, L) ids below ``vocabulary``, which is the id of the mask.
        vocabulary: ids of the tokenizer.
        draw: generator for the choice of tokens and of their replacement.

    Returns:
        inputs (B, L), and targets (B, L) with -100 at positions without a target; each window has at least one target.
    """
    chosen = draw.random(windows.shape) < MASKED
    chosen[np.arange(len(windows)), draw.integers(windows.shape[1], size=len(windows))] = True
    replacement = draw.random(windows.shape)
    inputs = np.where(chosen & (replacement >= UNTOUCHED + REPLACED), vocabulary, windows)
    other = draw.integers(vocabulary, size=windows.shape)
    inputs = np.where(chosen & (replacement >= UNTOUCHED) & (replacement < UNTOUCHED + REPLACED), other, inputs)
    return inputs, np.where(chosen, windows, IGNORED)


def _build(vocabulary: int, width: int, layers: int, heads: int, length: int, seed: int) -> Any:
    try:
        import transformers
    except ImportError:
        raise missing_extra("transformers", "hf", "pretraining donors") from None
    config = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=length,
        pad_token_id=None,
        mask_token_id=vocabulary - 1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.BertForMaskedLM(config)


def _train(
    model: nn.Module,
    tokens: NDArray[np.int64],
    vocabulary: int,
    steps: int,
    length: int,
    batch: int,
    learning_rate: float,
    seed: int,
    report: Callable[[int, float], None] | None,
) -> list[float]:
    settings = OptimizerSettings(learning_rate=learning_rate, weight_decay=0.01, beta2=0.98)
    optimizer = optimizers.build(model, settings)
    model.train()
    losses = []
    with torch.random.fork_rng(devices=[]):
        for step in range(steps):
            draw = generator(seed, "donor", step)
            starts = draw.integers(len(tokens) - length + 1, size=batch)
            inputs, targets = mask_tokens(tokens[starts[:, None] + np.arange(length)], vocabulary, draw)
            torch.manual_seed(integer_seed(seed, "donor", step, "dropout"))
            optimizers.set_learning_rate(optimizer, settings.rate_at(step, steps, (step + 1) / steps))
            loss = model(torch.from_numpy(inputs), labels=torch.from_numpy(targets)).loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            losses.append(float(loss.detach()))
            if not np.isfinite(losses[-1]):
                raise DataError(f"the donor's loss is {losses[-1]} at step {step + 1}; lower the learning rate.")
            if report is not None:
                report(step + 1, losses[-1])
    model.eval()
    return losses


@contextmanager
def _alone(place: Path, wait: bool) -> Iterator[None]:
    """No other process of this machine is here at the same time."""
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(place.with_name(f".{place.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))  # dies with the process
        except BlockingIOError:
            raise DonorIsMadeError(str(place)) from None
        yield
    finally:
        os.close(lock)


def _finished(place: Path, key: str) -> bool:
    """Whether a donor of this key is there, whole; what was written beside and renamed is."""
    record = place / RECORD
    if not record.is_file():
        return False
    values = canonical.loads(record.read_bytes(), what=str(record))
    return isinstance(values, dict) and values.get("key") == key and (place / WEIGHTS).is_file()


def _save(model: Any, tokenizer: Tokenizer, record: dict[str, Any], place: Path) -> None:
    """Write a donor beside its place and rename it; of two that are made at once the first stays."""
    import transformers

    beside = Path(tempfile.mkdtemp(prefix=".donor-", dir=place.parent))
    try:
        with quiet(transformers):
            model.save_pretrained(beside)
        (beside / "tokenizer.json").write_text(hugging_face_json(tokenizer), encoding="utf-8")
        (beside / RECORD).write_text(canonical.dumps(record), encoding="utf-8")
        try:
            os.rename(beside, place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            if not _finished(place, record["key"]):
                raise DataError(f"{place} is in the way and is no finished donor; remove it and try again.") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
