"""Backbones in transformers: the registered model type, its cache, and the family that some backbones are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from evodevo.export.models.base import MODEL_EXPORTERS
from evodevo.export.models.write import write_model
from evodevo.testing.model_exporters import backbone_subject

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'evodevo[hf]'")

SHARED = "11111 51211 14.1.1.1.1 51221 11112 11112"
"""Recurrences with one featurizer, a differential one, attention that borrows keys."""
LENGTHS = (3, 7)


@pytest.fixture(scope="module", autouse=True)
def _grad() -> object:
    with torch.no_grad():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("genome", [SHARED, "51111 71111"], ids=["shared", "without attention"])
def test_generation_with_cache_padding_and_beams_is_that_without(genome: str, tmp_path: Path) -> None:
    from evodevo.hf import EvodevoForCausalLM

    subject = backbone_subject(genome)
    MODEL_EXPORTERS.get("hf").write(subject, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert isinstance(model, EvodevoForCausalLM)
    tokens = torch.randint(1, 256, (1, LENGTHS[0]), generator=torch.Generator().manual_seed(1))
    longer = torch.randint(1, 256, (1, LENGTHS[1]), generator=torch.Generator().manual_seed(2))
    said = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    pads = LENGTHS[1] - LENGTHS[0]
    batch = torch.cat([torch.cat([tokens.new_zeros(1, pads), tokens], 1), longer])
    mask = torch.ones_like(batch)
    mask[0, :pads] = 0
    for beams in (1, 3):
        alone = [
            model.generate(one, num_beams=beams, use_cache=False, **said)[0, one.shape[1] :] for one in (tokens, longer)
        ]
        together = model.generate(batch, attention_mask=mask, num_beams=beams, **said)[:, LENGTHS[1] :]
        assert together.tolist() == [one.tolist() for one in alone], beams
    own = subject.model.continue_text(longer, 8, sampling=_greedy())
    assert own[0].tolist() == model.generate(longer, **said)[0, LENGTHS[1] :].tolist()


def _greedy() -> object:
    from evodevo.networks.sampling import SamplingSettings

    return SamplingSettings(temperature=0)


def test_sharing_survives_saving_loading_and_training(tmp_path: Path) -> None:
    import evodevo.hf  # noqa: F401

    subject = backbone_subject(SHARED)
    unique = sum(parameter.numel() for parameter in subject.model.parameters())
    folder = tmp_path / "first"
    MODEL_EXPORTERS.get("hf").write(subject, folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values()) == unique
    with torch.enable_grad():
        tokens = torch.arange(12).view(1, 12)
        loss = model.train()(tokens, labels=tokens).loss
        loss.backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    model.save_pretrained(tmp_path / "second")
    stored = load_file(tmp_path / "second" / "model.safetensors")
    assert sum(tensor.numel() for tensor in stored.values()) == unique
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "second").eval()
    assert torch.equal(again(tokens).logits, model.eval()(tokens).logits)
    assert again.backbone.bank["1_value"].weight.grad is None


def test_the_bytes_of_the_cache_are_those_of_the_cost() -> None:
    from evodevo.backbone.hugging_face.cache import EvodevoCache

    subject = backbone_subject(SHARED)
    space, genome = subject.model.structure.parse()
    cache = EvodevoCache(subject.model)
    subject.model.hidden(torch.zeros(1, 9, dtype=torch.long), state=cache.of(1))
    assert cache.get_seq_length() == 9
    assert cache.used_bytes() == space.cost(genome, length=9, convention="actual").cache_bytes


@pytest.mark.slow
def test_a_plain_transformer_is_a_llama_that_transformers_loads_alone(tmp_path: Path) -> None:
    done = write_model(MODEL_EXPORTERS.get("hf"), backbone_subject("41111 91111 41111 91111"), tmp_path / "out")
    values = json.loads((done.folder / "config.json").read_text())
    assert values["model_type"] == "llama"
    assert values["num_key_value_heads"] == 2
    assert done.alone


@pytest.mark.parametrize(
    "genome",
    [
        "11111 91111 31111 91111",
        "11111 91111 11111",
        "11112 91111 11112 91111",
        "11211 91111 11221 91111",
        "21111 91111",
    ],
    ids=["two ratios", "odd", "keys shared", "weights shared", "taps"],
)
def test_what_is_no_llama_is_not_called_one(genome: str) -> None:
    from evodevo.backbone.hugging_face.families import families

    assert families(backbone_subject(genome).model) == []


def test_a_family_that_answers_otherwise_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from evodevo.backbone.hugging_face import families

    monkeypatch.setattr(families, "BASE", 9000.0)  # other positions
    written = MODEL_EXPORTERS.get("hf").write(backbone_subject("11111 91111"), tmp_path)
    assert written.facts == {"model_type": "evodevo", "native": False}
    assert "(llama: its logits differ by " in written.notes[0]


def test_a_family_that_this_transformers_cannot_run_is_named_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def generate(self: object, *_: object, **__: object) -> None:
        raise ImportError("no kernel for this\nsecond line")

    monkeypatch.setattr(transformers.LlamaForCausalLM, "generate", generate)
    written = MODEL_EXPORTERS.get("hf").write(backbone_subject("11111 91111"), tmp_path)
    assert written.facts == {"model_type": "evodevo", "native": False}
    assert "(llama: no kernel for this)" in written.notes[0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"genome": "99999"}, "segment 1"), ({"space": {"wdith": 3}}, "wdith"), ({"genome_schema": 2}, "genome_schema")],
    ids=["genome", "space", "version"],
)
def test_a_configuration_of_something_else_is_refused(changed: dict[str, object], said: str) -> None:
    from evodevo.hf import EvodevoConfig

    with pytest.raises(ValueError, match=said):
        EvodevoConfig(**{"genome": "11111 91111", "space": {"depth": 2, "dimensions": {"width": 64}}, **changed})


@pytest.mark.slow
def test_without_registration_the_folder_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    MODEL_EXPORTERS.get("hf").write(backbone_subject("51111 71111"), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert "auto_map" not in values
    script = f"from transformers import AutoConfig; AutoConfig.from_pretrained({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode != 0
    assert "evodevo" in done.stderr
