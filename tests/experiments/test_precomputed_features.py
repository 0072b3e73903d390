"""Features of frozen towers: equal to the live tower's, found again, and made anew where anything changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.experiments import tower_features as features
from evodevo.experiments.tower_features import features_key, precompute
from evodevo.module_zoo.encoders.model import Senses
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.features import FeaturesTask
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import InputSpec

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

TEXT = InputSpec("text", "tokens", length=6, vocabulary=30)
IMAGE = InputSpec("image", "image", height=8, width=8, channels=1)
ANSWER = OutputSpec("answer", "class", 2, ("no", "yes"))
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    transformers.utils.logging.disable_progress_bar()
    found = {name: tmp_path_factory.mktemp(name) for name in ("bert", "vit")}
    save(found["bert"])
    torch.manual_seed(0)
    vision = transformers.ViTConfig(image_size=8, patch_size=4, **SIZES)
    transformers.ViTModel(vision).save_pretrained(found["vit"])
    yield found
    transformers.utils.logging.enable_progress_bar()


def save(folder: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=30, max_position_embeddings=10, **SIZES)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def a_task(seed: int = 0) -> InMemoryTask:
    rng = np.random.default_rng(seed)

    def part(count: int) -> dict[str, NDArray[np.generic]]:
        return {
            "text": rng.integers(0, 30, (count, 6)),
            "text/mask": np.arange(6) < rng.integers(0, 7, count)[:, None],  # some are empty
            "text/present": np.arange(count) % 5 != 2,
            "image": rng.integers(0, 256, (count, 8, 8, 1), dtype=np.uint8),
            "answer/target": rng.integers(0, 2, count),
        }

    return InMemoryTask((TEXT, IMAGE), (ANSWER,), {"train": part(70), "test": part(9)})


def frozen(folder: Path, **changes: Any) -> ExtractorStructure:
    return ExtractorStructure(kind="hugging_face", path=str(folder), **changes)


def tensors(batch: Any) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.asarray(array)) for name, array in batch.items()}


@pytest.mark.slow
def test_a_network_on_features_is_the_network_on_the_tower(folders: dict[str, Path], tmp_path: Path) -> None:
    task = a_task()
    extractors = {"text": frozen(folders["bert"]), "image": frozen(folders["vit"])}
    view = precompute(task, extractors, tmp_path)
    structure = ZooStructure(width=8, extractors=extractors)
    live = Senses(structure, structure.statistics, task.inputs).eval()
    read = Senses(structure, structure.statistics, view.inputs).eval()
    assert live.sides == read.sides
    report = read.load_state_dict(live.state_dict(), strict=False)
    assert not report.missing_keys
    assert all(".core." in name for name in report.unexpected_keys)
    for split in task.splits:
        places = np.arange(task.count(split))[::-1].copy()
        with torch.no_grad():
            pairs = zip(live(tensors(task.fetch(split, places))), read(tensors(view.fetch(split, places))), strict=True)
            for one, two in pairs:
                assert one is not None
                assert two is not None
                torch.testing.assert_close(one.vector, two.vector, rtol=0, atol=1e-5)
                masks = [
                    torch.ones(s.tokens.shape[:2], dtype=torch.bool) if s.mask is None else s.mask for s in (one, two)
                ]
                assert torch.equal(*masks)
                torch.testing.assert_close(one.tokens[masks[0]], two.tokens[masks[1]], rtol=0, atol=1e-5)


def test_a_second_call_reads_the_cache(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    task, extractors = a_task(), {"text": frozen(folders["bert"])}
    first = precompute(task, extractors, tmp_path, progress=lambda *facts: told.append(facts))
    assert told == [("text", 64, 79), ("text", 70, 79), ("text", 79, 79)]

    def nobody(*_: object) -> None:
        raise AssertionError("the tower was loaded again")

    with monkeypatch.context() as patch:
        patch.setattr(features, "TowerReader", nobody)
        again = precompute(a_task(), extractors, tmp_path)
        with pytest.raises(AssertionError, match="loaded"):
            precompute(a_task(seed=1), extractors, tmp_path)
    assert again.digest == first.digest
    places = np.arange(70)
    np.testing.assert_array_equal(again.fetch("train", places)["text"], first.fetch("train", places)["text"])


def test_a_damaged_file_is_made_anew(folders: dict[str, Path], tmp_path: Path) -> None:
    task, extractors = a_task(), {"image": frozen(folders["vit"])}
    before = precompute(task, extractors, tmp_path).fetch("train", np.arange(70))["image"]
    (place,) = tmp_path.glob("features/*/*/train.values")
    place.write_bytes(place.read_bytes()[:-4] + b"\0\0\0\1")
    after = precompute(task, extractors, tmp_path).fetch("train", np.arange(70))["image"]
    np.testing.assert_array_equal(before, after)


def test_the_key_is_of_everything_that_decides(folders: dict[str, Path], tmp_path: Path) -> None:
    task, structure = a_task(), frozen(folders["bert"])
    other = tmp_path / "other"
    save(other, seed=1)
    keys = [features_key(task, TEXT, structure)]
    keys.append(features_key(task, TEXT, frozen(folders["bert"], positions=False)))
    keys.append(features_key(task, TEXT, frozen(other)))
    keys.append(features_key(a_task(seed=1), TEXT, structure))
    (other / "tokenizer.json").write_text("{}", encoding="utf-8")
    keys.append(features_key(task, TEXT, frozen(other)))
    assert len(set(keys)) == len(keys)
    copied = tmp_path / "elsewhere"
    copied.mkdir()
    for file in folders["bert"].iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    assert features_key(task, TEXT, frozen(copied)) == keys[0]


def test_what_learns_is_not_prepared(folders: dict[str, Path], tmp_path: Path) -> None:
    task = a_task()
    extractors = {"text": frozen(folders["bert"], train="last"), "image": ExtractorStructure()}
    assert precompute(task, extractors, tmp_path) is task
    view = precompute(task, extractors | {"image": frozen(folders["vit"])}, tmp_path)
    assert isinstance(view, FeaturesTask)
    assert [spec.modality for spec in view.inputs] == ["tokens", "features"]
    with pytest.raises(UsageError, match="'image'"):
        precompute(task, {"imagge": frozen(folders["vit"])}, tmp_path)
