"""Towers made of tiny random Hugging Face models: what transformers computes, what learns, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from evodevo.errors import DataError, NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.module_zoo.encoders.extractors import build_extractor
from evodevo.module_zoo.spec import StatisticsStructure
from evodevo.networks.towers.images import Preparation, prepare
from evodevo.networks.towers.model import TextTower, VisionTower, surround
from evodevo.networks.towers.spec import ExtractorStructure, tower_sizes
from evodevo.operators.pretrained.files import weights_digest
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.encoders import SensesCase, SensesTests

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

TEXT = InputSpec("text", "tokens", length=7, vocabulary=30)
IMAGE = InputSpec("image", "image", height=6, width=4, channels=3)
TEXTS = ("bert", "roberta", "distilbert", "clip")
IMAGES = ("vit", "clip", "clip_vision")
WORDS = 40


def tokenizer_json() -> str:
    """Words 'a' to 'z' from id 4 on, with [CLS] = 2 before and [SEP] = 3 behind."""
    import tokenizers

    letters = {chr(ord("a") + place): 4 + place for place in range(26)}
    model = tokenizers.models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, **letters}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return str(tokenizer.to_str())


def make(family: str) -> Any:
    """A model whose weights are all random."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
    words = {"vocab_size": WORDS, "max_position_embeddings": 12, "pad_token_id": 1 if family == "roberta" else 0}
    pictures = {"image_size": 8, "patch_size": 4}
    own = {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 24}
    both = {"text_config": {**sizes, **words, "hidden_size": 12}, "vision_config": {**sizes, **pictures}}
    name, settings, model_of = {
        "vit": ("ViT", sizes | pictures, "ViTModel"),
        "clip_vision": ("CLIPVision", sizes | pictures, "CLIPVisionModel"),
        "clip": ("CLIP", both, "CLIPModel"),
        "distilbert": ("DistilBert", words | own, "DistilBertForMaskedLM"),
        "bert": ("Bert", words | sizes, "BertForMaskedLM"),
        "roberta": ("Roberta", words | sizes, "RobertaForMaskedLM"),
    }[family]
    torch.manual_seed(0)
    model = getattr(transformers, model_of)(getattr(transformers, f"{name}Config")(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # biases and norms are constants otherwise
    return model.eval()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Family -> a saved model; that of ``bert`` has a tokenizer."""
    transformers.utils.logging.disable_progress_bar()
    found = {}
    for family in (*TEXTS, "vit", "clip_vision"):
        found[family] = tmp_path_factory.mktemp(family)
        make(family).save_pretrained(found[family])
    (found["bert"] / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    yield found
    transformers.utils.logging.enable_progress_bar()


def tower(folder: Path, spec: InputSpec, *, missing: bool = False, **changes: Any) -> TextTower | VisionTower:
    structure = ExtractorStructure(kind="hugging_face", path=str(folder), **changes)
    return build_extractor(spec, structure, 8, missing=missing)


def part(model: Any, modality: str) -> Any:
    """The half without a head that reads the modality."""
    if isinstance(model, transformers.CLIPModel):
        return model.text_model if modality == "tokens" else model.vision_model
    return getattr(model, model.base_model_prefix) if hasattr(model, model.base_model_prefix) else model


def texts(count: int = 3) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(4, 30, (count, 6), generator=torch.Generator().manual_seed(1))
    return tokens, torch.arange(6) < torch.tensor([6, 3, 1])[:, None]


class TestTowersAsSenses(SensesTests):
    @pytest.fixture(params=[(*kind, train) for kind in (("bert", TEXT), ("clip", IMAGE)) for train in ("none", "all")])
    def case(self, request: pytest.FixtureRequest, folders: dict[str, Path]) -> SensesCase:
        family, spec, train = request.param
        extractor = ExtractorStructure(kind="hugging_face", path=str(folders[family]), train=train)
        unused = ("extractors.image.core.model.post_layernorm",)  # only the pooled output of CLIP goes through it
        return SensesCase((spec,), extractor, StatisticsStructure(rank=3), untouched=unused)


# What transformers computes


@torch.no_grad()
@pytest.mark.parametrize("family", ["roberta", "distilbert", "clip"])
def test_texts_are_read_as_transformers_reads_them(family: str, folders: dict[str, Path]) -> None:
    built = tower(folders[family], TEXT)
    tokens, mask = texts()
    h, found = built({"text": tokens, "text/mask": mask}, 3)
    padded = tokens.where(mask, torch.tensor(1 if family == "roberta" else 0))
    wanted = part(make(family), "tokens")(input_ids=padded, attention_mask=mask.long()).last_hidden_state
    assert found is mask
    torch.testing.assert_close(h[mask], wanted[mask], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_special_tokens_are_put_around_as_the_tokenizer_does(folders: dict[str, Path]) -> None:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json())
    sentences = ["a b c d e f", "x y", ""]
    plain = [tokenizer.encode(one, add_special_tokens=False).ids for one in sentences]
    mask = torch.tensor([[place < len(ids) for place in range(6)] for ids in plain])
    tokens = torch.tensor([ids + [9] * (6 - len(ids)) for ids in plain])
    built = tower(folders["bert"], TEXT)
    h, found = built({"text": tokens, "text/mask": mask}, 3)
    assert found.sum(1).tolist() == [8, 4, 2]
    model = part(make("bert"), "tokens")
    for row, sentence in enumerate(sentences):
        ids = torch.tensor([tokenizer.encode(sentence).ids])
        wanted = model(input_ids=ids).last_hidden_state[0]
        torch.testing.assert_close(h[row][found[row]], wanted, rtol=1e-5, atol=1e-5)
    bare, nothing = built({"text": tokens[:1]}, 1)
    assert nothing is None
    torch.testing.assert_close(bare[0], h[0][found[0]])


def test_special_tokens_stand_behind_the_last_real_one(folders: dict[str, Path]) -> None:
    sizes = tower_sizes(str(folders["bert"]), TEXT)
    assert (sizes.prefix, sizes.suffix) == ((2,), (3,))
    mask = torch.tensor([[True, False, True, False], [False, False, False, False]])
    tokens, real = surround(torch.full((2, 4), 9), mask, sizes)
    assert tokens.where(real, torch.tensor(-1)).tolist() == [[2, 9, -1, 9, 3, -1], [2, 3, -1, -1, -1, -1]]


@torch.no_grad()
@pytest.mark.parametrize("family", IMAGES)
def test_images_are_read_as_transformers_reads_them(family: str, folders: dict[str, Path]) -> None:
    spec = InputSpec("image", "image", height=8, width=8, channels=3)
    raw = torch.randint(0, 256, (2, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    h, mask = tower(folders[family], spec)({"image": raw}, 2)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    pixels = ((raw / 255 - mean) / std).permute(0, 3, 1, 2)
    wanted = part(make(family), "image")(pixel_values=pixels).last_hidden_state
    assert mask is None
    torch.testing.assert_close(h, wanted, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_grey_images_of_any_size_are_made_what_the_tower_reads(folders: dict[str, Path]) -> None:
    grey, colour = (InputSpec("image", "image", height=5, width=9, channels=channels) for channels in (1, 3))
    raw = torch.randint(0, 256, (2, 5, 9, 1), dtype=torch.uint8)
    h, _ = tower(folders["vit"], grey)({"image": raw}, 2)
    assert h.shape == (2, 5, 16)
    torch.testing.assert_close(tower(folders["vit"], colour)({"image": raw.expand(-1, -1, -1, 3)}, 2)[0], h)


@pytest.mark.parametrize("kind", ["clip", "vit"])
def test_images_are_prepared_as_transformers_prepares_them(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    classes = {"clip": "CLIPImageProcessorPil", "vit": "ViTImageProcessorPil"}
    processors = pytest.importorskip(f"transformers.models.{kind}.image_processing_pil_{kind}")
    if kind == "clip":
        options: dict[str, Any] = {"size": {"shortest_edge": 10}, "crop_size": {"height": 8, "width": 8}}
    else:
        options = {"size": {"height": 8, "width": 8}}
    processor = getattr(processors, classes[kind])(**options)
    processor.save_pretrained(tmp_path)
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes((folders[kind] / file).read_bytes())
    spec = InputSpec("image", "image", height=20, width=31, channels=3)
    built = tower(tmp_path, spec)
    raw = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    wanted = torch.as_tensor(np.asarray(processor(images=[raw], return_tensors="np")["pixel_values"]))
    found = prepare(torch.from_numpy(raw)[None], built.preparation, (8, 8), 3, torch.float32)
    assert found.shape == wanted.shape
    # Pillow resizes in whole numbers: one step of 255 may differ.
    assert float((found - wanted).abs().max()) <= 2 / 255 / min(built.preparation.std)


def test_preparation_without_normalisation_only_divides() -> None:
    raw = torch.full((1, 2, 2, 1), 255, dtype=torch.uint8)
    how = Preparation((2, 2), mean=(0.0,), std=(1.0,))
    assert torch.equal(prepare(raw, how, (2, 2), 3, torch.float32), torch.ones(1, 3, 2, 2))


# What learns


def test_the_frozen_tower_has_no_graph_and_no_dropout_and_draws_nothing(folders: dict[str, Path]) -> None:
    state = torch.get_rng_state()
    built = tower(folders["bert"], TEXT, train="none").train()
    assert torch.equal(torch.get_rng_state(), state)
    tokens, _ = texts()
    h, _ = built({"text": tokens}, 3)
    assert not h.requires_grad
    assert not any(parameter.requires_grad for parameter in built.parameters())
    assert torch.equal(h, built({"text": tokens}, 3)[0])


@pytest.mark.parametrize(("family", "spec"), [("bert", TEXT), ("clip", TEXT), ("vit", IMAGE), ("distilbert", TEXT)])
def test_the_last_layers_learn(family: str, spec: InputSpec, folders: dict[str, Path]) -> None:
    built = tower(folders[family], spec, train="last", last=2).train()
    learning = {name for name, parameter in built.named_parameters() if parameter.requires_grad}
    frozen = {name for name, parameter in built.named_parameters() if not parameter.requires_grad}
    norms = {"vit": 2, "clip": 2}.get(family, 0)
    assert len([name for name in learning if not any(f".{layer}." in name for layer in (1, 2))]) == norms
    assert not any(".1." in name or ".2." in name for name in frozen)
    batch = {"text": texts()[0], "image": torch.zeros(3, 6, 4, 3, dtype=torch.uint8)}
    built(batch, 3)[0].square().sum().backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in built.parameters())
    core = built.core
    assert [part.training for part in core.learning] == [True] * len(core.learning)
    assert not core.model.training


def test_everything_learns_and_two_towers_of_one_file_are_two(folders: dict[str, Path]) -> None:
    one, two = (tower(folders["bert"], TEXT, train="all").train() for _ in range(2))
    assert all(parameter.requires_grad for parameter in one.parameters())
    assert one.core.model.training
    with torch.no_grad():
        next(one.parameters()).add_(1)
    assert not torch.equal(next(one.parameters()), next(two.parameters()))


@pytest.mark.parametrize(("family", "spec"), [("bert", TEXT), ("distilbert", TEXT), ("clip", TEXT), ("vit", IMAGE)])
def test_positions_can_be_taken_away(family: str, spec: InputSpec, folders: dict[str, Path]) -> None:
    built = tower(folders[family], spec, positions=False, train="all")
    tables = [p for name, p in built.named_parameters() if "position_embedding" in name]
    assert len(tables) == 1
    assert not tables[0].any()
    assert not tables[0].requires_grad


# What is refused


@pytest.mark.parametrize(
    ("family", "spec", "changes", "words"),
    [
        ("bert", replace(TEXT, length=11), {}, "at most 10"),
        ("roberta", replace(TEXT, length=11), {}, "at most 10"),  # two places are for the id of padding
        ("bert", replace(TEXT, vocabulary=41), {}, "tokenizer.json"),
        ("bert", IMAGE, {}, "reads tokens"),
        ("vit", TEXT, {}, "reads image"),
        ("bert", TEXT, {"train": "last", "last": 4}, "last = 4"),
        ("vit", replace(IMAGE, channels=2), {}, "channels"),
        ("bert", TEXT, {"self_attention": False}, "self_attention"),
        ("vit", IMAGE, {"patches": "frozen"}, "patches"),
    ],
)
def test_what_does_not_fit_is_refused(
    family: str, spec: InputSpec, changes: dict[str, Any], words: str, folders: dict[str, Path]
) -> None:
    with pytest.raises(UsageError, match=words):
        tower(folders[family], spec, **changes)


def test_folders_that_hold_no_tower_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        tower(Path("nobody/has-this"), TEXT)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")
    with pytest.raises(UsageError, match="gpt2"):
        tower(tmp_path, TEXT)


def test_files_that_are_not_what_they_were_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    digest = weights_digest(str(folders["bert"]))
    assert isinstance(tower(folders["bert"], TEXT, digest=digest), TextTower)
    with pytest.raises(StoreDamagedError, match="another file"):
        tower(folders["bert"], TEXT, digest="0" * 64)
    (tmp_path / "config.json").write_bytes((folders["bert"] / "config.json").read_bytes())
    with pytest.raises(NotFoundError):
        tower(tmp_path, TEXT)
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(UnsafeFileError, match="run code"):
        tower(tmp_path, TEXT)
    weights = load_file(folders["bert"] / "model.safetensors")
    lost = {name: tensor for name, tensor in weights.items() if "layer.1.output.dense" not in name}
    save_file(lost, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="no weights for"):
        tower(tmp_path, TEXT)


@pytest.mark.parametrize(
    "text", ['{"size": "large"}', '{"image_mean": [1, 2]}', '{"image_std": [0, 1, 1]}', "[]", '{"size": {"height": 0}}']
)
def test_a_damaged_preprocessor_is_refused(text: str, folders: dict[str, Path], tmp_path: Path) -> None:
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes((folders["vit"] / file).read_bytes())
    (tmp_path / "preprocessor_config.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError):
        tower(tmp_path, IMAGE)


@pytest.mark.parametrize(("family", "spec"), [*((one, TEXT) for one in TEXTS), *((one, IMAGE) for one in IMAGES)])
def test_stated_parameters_are_counted(family: str, spec: InputSpec, folders: dict[str, Path]) -> None:
    sizes = tower_sizes(str(folders[family]), spec)
    assert sizes.parameters == sum(p.numel() for p in tower(folders[family], spec).parameters())
    assert sizes.width == (12 if (family, spec) == ("clip", TEXT) else 16)
