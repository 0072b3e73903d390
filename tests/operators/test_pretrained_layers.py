"""Layers of tiny random Hugging Face models: the laws of every layer, and what transformers itself computes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import DataError, MissingExtraError, NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.operators.adapters import Adapted
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.pretrained import layers as pretrained
from evodevo.operators.pretrained.files import weights_digest
from evodevo.operators.pretrained.layers import PretrainedBlock, pretrained_block
from evodevo.testing.layers import LayerCase, LayerTests

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

WIDTH, LAYERS, WORDS, LENGTH = 16, 3, 40, 12
FAMILIES = ("bert", "roberta", "distilbert", "vit")


def sizes(family: str) -> dict[str, int]:
    if family == "distilbert":
        return {"dim": WIDTH, "n_layers": LAYERS, "n_heads": 2, "hidden_dim": 24}
    return {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 24}


def make(family: str) -> Any:
    """A model with a head, whose weights are all random."""
    torch.manual_seed(0)
    if family == "vit":
        model = transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **sizes(family)))
    else:
        name = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}[family]
        config = getattr(transformers, f"{name}Config")(
            vocab_size=WORDS, max_position_embeddings=LENGTH + 4, pad_token_id=0, **sizes(family)
        )
        model = getattr(transformers, f"{name}ForMaskedLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # biases and norms are constants otherwise
    return model.eval()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Family -> a saved model."""
    log = transformers.utils.logging
    log.disable_progress_bar()
    found = {}
    for family in FAMILIES:
        found[family] = tmp_path_factory.mktemp(family)
        make(family).save_pretrained(found[family])
    yield found
    log.enable_progress_bar()


class TestPretrainedLayers(LayerTests):
    @pytest.fixture(params=[*((family, "all", None) for family in FAMILIES), ("bert", "none", WIDTH)], ids=str)
    def case(self, request: pytest.FixtureRequest, folders: dict[str, Path]) -> LayerCase:
        family, train, width = request.param
        spec = PretrainedLayer(path=str(folders[family]), index=1, train=train, width=width)
        return LayerCase(spec, WIDTH if width is None else 10, causal=False, frozen=train == "none")


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_layers_in_a_row_are_the_text_model(family: str, folders: dict[str, Path]) -> None:
    model = make(family)
    tokens = torch.randint(3, WORDS, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 5, 1]).unsqueeze(1)
    base = getattr(model, model.base_model_prefix)
    with torch.no_grad():
        states: tuple[Tensor, ...] = base(tokens, attention_mask=mask.long(), output_hidden_states=True).hidden_states
        for index in range(LAYERS):
            block = pretrained_block(str(folders[family]), index, train="none", digest=None)
            y = block(states[index], mask=mask).y
            torch.testing.assert_close(y[mask], states[index + 1][mask], rtol=1e-5, atol=1e-5)


def test_layers_in_a_row_are_the_image_model(folders: dict[str, Path]) -> None:
    model = make("vit")
    with torch.no_grad():
        answer = model(torch.randn(2, 3, 8, 8), output_hidden_states=True)
        x = answer.hidden_states[0]
        for index in range(LAYERS):
            x = pretrained_block(str(folders["vit"]), index, train="none", digest=None)(x).y
        torch.testing.assert_close(model.layernorm(x), answer.last_hidden_state, rtol=1e-5, atol=1e-5)


def test_frozen_is_frozen_and_trained_is_trained(folders: dict[str, Path]) -> None:
    x = torch.randn(2, 5, WIDTH)
    for train in ("none", "all"):
        block = pretrained_block(str(folders["bert"]), 0, train=train, digest=None).train()  # type: ignore[arg-type]
        assert {p.requires_grad for p in block.parameters()} == {train == "all"}
        same = torch.equal(block(x).y, block(x).y)
        assert same == (train == "none"), "dropout belongs to fine-tuning"


def test_two_layers_of_one_model_share_nothing(folders: dict[str, Path]) -> None:
    path = str(folders["bert"])
    one, two = (pretrained_block(path, 0, train="all", digest=None) for _ in range(2))
    with torch.no_grad():
        next(one.parameters()).add_(1.0)
    assert not torch.equal(next(one.parameters()), next(two.parameters()))
    assert torch.equal(next(two.parameters()), next(pretrained_block(path, 0, train="all", digest=None).parameters()))


def test_reading_draws_nothing(folders: dict[str, Path]) -> None:
    pretrained._load.cache_clear()
    torch.manual_seed(0)
    pretrained_block(str(folders["vit"]), 0, train="none", digest=None)
    after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(3))


def test_the_digest_is_checked(folders: dict[str, Path]) -> None:
    path = str(folders["bert"])
    digest = weights_digest(path)
    assert isinstance(pretrained_block(path, 0, train="none", digest=digest), PretrainedBlock)
    with pytest.raises(StoreDamagedError, match=digest):
        pretrained_block(path, 0, train="none", digest="0" * 64)


def test_what_cannot_be_is_refused(folders: dict[str, Path]) -> None:
    path = str(folders["bert"])
    with pytest.raises(UsageError, match="look both ways"):
        build_layer(PretrainedLayer(path=path, index=0), WIDTH, causal=True)
    with pytest.raises(UsageError, match="residuals"):
        build_layer(PretrainedLayer(path=path, index=0), WIDTH, causal=False, residual=False)
    with pytest.raises(UsageError, match="layers 0 to 2"):
        build_layer(PretrainedLayer(path=path, index=3), WIDTH, causal=False)
    with pytest.raises(UsageError, match=f"set the layer's width to {WIDTH}"):
        build_layer(PretrainedLayer(path=path, index=0), 32, causal=False)
    assert isinstance(build_layer(PretrainedLayer(path=path, index=0, width=WIDTH), 32, causal=False), Adapted)
    with pytest.raises(NotFoundError, match="nothing is downloaded"):
        build_layer(PretrainedLayer(path="nobody/nothing", index=0), WIDTH, causal=False)


def test_a_pickle_is_not_read(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folders["bert"] / "config.json").read_bytes())
    spec = PretrainedLayer(path=str(tmp_path), index=0)
    with pytest.raises(NotFoundError, match="saved as one"):
        build_layer(spec, WIDTH, causal=False)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(UnsafeFileError, match="can run code"):
        build_layer(spec, WIDTH, causal=False)


@pytest.mark.parametrize("content", [b"", b"not weights at all", b"\xff" * 64])
def test_a_damaged_file_is_named(content: bytes, folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folders["bert"] / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=str(tmp_path)):
        build_layer(PretrainedLayer(path=str(tmp_path), index=0), WIDTH, causal=False)


def test_a_file_without_the_layer_is_named(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folders["bert"] / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if ".layer.1." not in k}, tmp_path / "model.safetensors", {"format": "pt"}
    )
    (tmp_path / "config.json").write_bytes((folders["bert"] / "config.json").read_bytes())
    build_layer(PretrainedLayer(path=str(tmp_path), index=0), WIDTH, causal=False)
    with pytest.raises(DataError, match="no weights for"):
        build_layer(PretrainedLayer(path=str(tmp_path), index=1), WIDTH, causal=False)


def test_a_missing_extra_is_named(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pretrained._load.cache_clear()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"evodevo\[hf\]"):
        pretrained_block(str(folders["bert"]), 0, train="none", digest=None)


def test_weights_that_are_no_numbers_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folders["bert"] / "model.safetensors")
    name = next(name for name in weights if ".layer.1." in name)
    weights[name].view(-1)[-1] = torch.nan
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_bytes((folders["bert"] / "config.json").read_bytes())
    with pytest.raises(DataError, match="NaN or infinity"):
        build_layer(PretrainedLayer(path=str(tmp_path), index=1), WIDTH, causal=False)
