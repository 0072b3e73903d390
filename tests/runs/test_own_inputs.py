"""A sample of one's own reaches the model as the same sample of the task does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from evodevo.errors import DataError, UsageError
from evodevo.runs.own_inputs import own_sample
from evodevo.settings import validate
from evodevo.tasks.reasoning.proofs import ProofsTask
from evodevo.testing.networks import FACTS, IMAGE, TEXT, small_model
from evodevo.training.precision import decide


def letters(name: str, text: str) -> np.ndarray:
    """Ids of the letters a to k."""
    return np.array([ord(letter) - ord("a") for letter in text], dtype=np.int64)


def test_a_text_is_routed_as_the_same_sample_of_the_task_also_from_a_file(tmp_path: Path) -> None:
    samples = {"train": 20, "validation": 8, "test": 8}
    proofs = ProofsTask(validate(ProofsTask.settings_class, {"samples": samples}, what="the test's settings"))
    model, place = small_model(proofs.inputs, proofs.outputs), decide("cpu").place
    for sample in range(3):
        words = proofs.show("validation", sample)["text"]
        own = own_sample(proofs.inputs, {"text": words}, proofs.encode, missing=False)
        same = proofs.fetch("validation", np.array([sample]))
        assert (own["text"] == same["text"]).all()
        assert (own["text/mask"] == same["text/mask"]).all()
        traces = [model.trace(place(batch)) for batch in (own, same)]
        assert traces[0].routes() == pytest.approx(traces[1].routes(), abs=1e-6)
    with pytest.raises(UsageError, match="'dragon' is not in the vocabulary of theories"):
        own_sample(proofs.inputs, {"text": "anne is dragon ."}, proofs.encode, missing=False)
    with pytest.raises(UsageError, match="is empty"):
        own_sample(proofs.inputs, {"text": ""}, proofs.encode, missing=False)
    path = tmp_path / "theory.txt"
    path.write_text("anne is big . anne is big ?", encoding="utf-8")
    one, two = (
        own_sample(proofs.inputs, {"text": value}, proofs.encode, missing=False)
        for value in (str(path), "Anne is big. Anne is big?")
    )
    assert (one["text"] == two["text"]).all()
    assert one["text/mask"].sum() == 8


def test_images_are_resized_and_numbers_read(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    Image.fromarray(np.full((8, 8), 100, np.uint8)).save(path)
    batch = own_sample((IMAGE, FACTS), {"image": str(path), "facts": "1, 0.5 -2"}, letters, missing=False)
    assert (batch["image"] == 100).all()
    assert batch["image"].shape == (1, 4, 4, 1)
    assert batch["facts"].tolist() == [[1, 0.5, -2]]
    assert set(batch) == {"image", "facts"}


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    for values, words in (
        ({"image": "x.png", "facts": "1 2 3", "sound": "a"}, "no input 'sound'"),
        ({"facts": "1 2 3"}, "'image' is missing"),
    ):
        with pytest.raises(UsageError, match=words):
            own_sample((IMAGE, FACTS), values, letters, missing=False)
    for numbers in ("1 2", "1, x, 3", "1 2 nan", ""):
        with pytest.raises(UsageError, match="3 finite numbers"):
            own_sample((FACTS,), {"facts": numbers}, letters, missing=False)
    wrong = tmp_path / "wrong.png"
    wrong.write_bytes(b"no image")
    for path in (str(tmp_path / "none.png"), "a" * 5000, "a\0b", str(tmp_path), str(wrong)):
        with pytest.raises(DataError, match="cannot be read"):
            own_sample((IMAGE,), {"image": path}, letters, missing=False)


def test_a_missing_input_is_told_to_a_model_that_knows_it() -> None:
    model = small_model((TEXT, FACTS), missing=True)
    batch = own_sample((TEXT, FACTS), {"facts": "1 2 3"}, letters, missing=True)
    assert [bool(batch[f"{name}/present"][0]) for name in ("text", "facts")] == [False, True]
    assert model.trace(decide("cpu").place(batch)).count == 1
    # What stands where nothing was given is not read.
    other = {**batch, "text": np.full((1, 12), 5)}
    one, two = (model.trace(decide("cpu").place(given)).routes() for given in (batch, other))
    assert torch.equal(torch.from_numpy(one), torch.from_numpy(two))
