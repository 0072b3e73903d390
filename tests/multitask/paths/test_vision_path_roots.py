"""Roots from Hugging Face checkpoints answer what transformers answers, and what does not fit is one clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evodevo.errors import DataError, NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.multitask.paths.images import read_images
from evodevo.multitask.paths.vision.checkpoint import checkpoint_structure
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.roots import read_root
from evodevo.operators.pretrained.files import weights_digest

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
SIZES: dict[str, Any] = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_labels": 3,
}


def make(kind: str, **options: Any) -> Any:
    """A model whose weights are all random."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, kind)(transformers.ViTConfig(**{**SIZES, **options}))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


def save(model: Any, folder: Path) -> str:
    bars = transformers.utils.logging
    bars.disable_progress_bar()
    model.save_pretrained(folder)
    bars.enable_progress_bar()
    return str(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved classifier."""
    save(make("ViTForImageClassification"), tmp_path / "vit")
    return tmp_path / "vit"


def rewrite(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


@pytest.mark.parametrize(
    "options",
    [{}, {"qkv_bias": False}, {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}, {"hidden_act": "relu"}],
    ids=str,
)
def test_a_root_answers_what_transformers_answers(options: dict[str, Any], tmp_path: Path) -> None:
    x = torch.randn(3, 3, 8, 8)
    classifier = make("ViTForImageClassification", **options)
    root = read_root(save(classifier, tmp_path / "classifier"), head=True)
    assert root.structure.classes == 3
    path = VisionPath(root.structure, root.components).eval()
    with torch.no_grad():
        torch.testing.assert_close(path(x), classifier(x).logits, rtol=1e-5, atol=1e-5)
    model = make("ViTModel", **options)
    root = read_root(save(model, tmp_path / "model"), head=True)
    assert root.structure.classes == 0
    path = VisionPath(root.structure, root.components).eval()
    bare = read_root(str(tmp_path / "classifier"))
    assert "head" not in bare.components
    assert bare.structure == checkpoint_structure(str(tmp_path / "classifier"))
    with torch.no_grad():
        hidden = model(x).last_hidden_state
        torch.testing.assert_close(path.represent(x).tokens, hidden, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(path(x), hidden[:, 0], rtol=1e-5, atol=1e-5)
        body = classifier.vit(x).last_hidden_state[:, 0]
        torch.testing.assert_close(VisionPath(bare.structure, bare.components)(x), body, rtol=1e-5, atol=1e-5)


def test_normalisation_of_the_checkpoint_becomes_part_of_the_patches(folder: Path) -> None:
    mean, std = [0.4, 0.5, 0.3], [0.2, 0.25, 0.3]
    settings = {"do_normalize": True, "image_mean": mean, "image_std": std, "size": {"height": 8, "width": 8}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    root = read_root(str(folder), head=True)
    raw = torch.randint(0, 256, (3, 8, 8, 3), dtype=torch.uint8)
    normalised = (raw.permute(0, 3, 1, 2) / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    with torch.no_grad():
        path = VisionPath(root.structure, root.components)
        expected = make("ViTForImageClassification")(normalised).logits
        torch.testing.assert_close(path(read_images(root.structure, raw)), expected, rtol=1e-4, atol=1e-5)


def test_a_root_at_another_image_size_is_what_transformers_interpolates_to_nearly(folder: Path) -> None:
    root, native = read_root(str(folder), image_size=16), read_root(str(folder))
    assert root.structure.grid == 4
    assert VisionPath(root.structure, root.components)(torch.randn(2, 3, 16, 16)).shape == (2, 16)
    table, old = (one.components["posembed_input"].state_dict()["table"] for one in (root, native))
    assert torch.equal(table[0], old[0])
    for corner, place in ((1, 1), (4, 2), (13, 3), (16, 4)):
        torch.testing.assert_close(table[corner], old[place])


def test_the_digest_is_asked_for(folder: Path) -> None:
    digest = weights_digest(str(folder))
    assert read_root(str(folder), digest=digest).digest == digest
    with pytest.raises(StoreDamagedError):
        read_root(str(folder), digest="0" * 64)


def test_what_is_no_root_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_root(str(tmp_path / "nowhere"))
    for values, message in (
        ({"hidden_act": "quick_gelu"}, "quick_gelu"),
        ({"hidden_act": ["gelu"]}, "has the activation"),
        ({"layer_norm_eps": "small"}, "norm_epsilon"),
        ({"image_size": [8, 16]}, "square"),
        ({"image_size": 10}, "patches of 4"),
        ({"num_channels": 4}, "channels"),
        ({"num_attention_heads": 3}, "3 attention heads do not divide"),
        ({"model_type": "bert"}, "'vit'"),
        ({"model_type": "swin"}, "swin"),
    ):
        other = tmp_path / "other"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(folder, other)
        rewrite(other, **values)
        with pytest.raises(UsageError, match=message):
            read_root(str(other))


def test_weights_that_do_not_fit_are_one_clear_error(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    lost = "vit.encoder.layer.1.output.dense.weight"
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, file)
    with pytest.raises(DataError, match=lost):
        read_root(str(folder))
    save_file({**tensors, lost: torch.zeros(16, 23)}, file)
    with pytest.raises(DataError, match=r"outer\.weight.*\(16, 23\).*\(16, 24\)"):
        read_root(str(folder))
    save_file({**tensors, lost: torch.full((16, 24), float("nan"))}, file)
    with pytest.raises(DataError, match="not finite"):
        read_root(str(folder))
    save_file(tensors, file)
    rewrite(folder, image_size=16)
    with pytest.raises(DataError, match=r"posembed_input.*\(5, 16\).*\(17, 16\)"):
        read_root(str(folder))
    rewrite(folder, image_size=8)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DataError, match="not readable"):
        read_root(str(folder))
    file.rename(folder / "pytorch_model.bin")
    with pytest.raises(UnsafeFileError):
        read_root(str(folder))
