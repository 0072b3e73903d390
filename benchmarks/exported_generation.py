"""Tokens per second of an exported backbone in transformers against our own generate, and of its ``model.py``.

Run: python benchmarks/exported_generation.py [--json PATH] [--width 256 --depth 12]

Each backbone has drawn weights and is exported to ``hf`` and to ``source``; every call continues the same prompts
greedily with its cache, the prompt included in the time. The calls take turns, so that a busy machine slows all of them
alike; the table says how many of their tokens agree. transformer++ leaves as transformers' Llama, the others as the
type evodevo.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.spec import BackboneStructure
from evodevo.export.models.base import MODEL_EXPORTERS, ModelSubject, Story
from evodevo.networks.build import build_network
from evodevo.networks.sampling import SamplingSettings
from evodevo.networks.tensors import TensorNetwork
from evodevo.runs.export import model_subject
from evodevo.tasks.text.language import windows_of
from measuring import Report, Spread, arguments, ratio, take_turns

BACKBONES = ("transformer++", "striped-mamba")
VOCABULARY = 1024


def drawn(name: str, width: int, depth: int) -> ModelSubject:
    """A backbone with drawn weights."""
    space = {"depth": depth, "dimensions": {"width": width}}
    structure = BackboneStructure.model_validate({"space": space, "genome": name})
    torch.manual_seed(0)
    network = build_network(BackboneNetwork(structure=structure), *windows_of(VOCABULARY, 512), seed=0)
    return model_subject(TensorNetwork(network), name=name, kind="backbone", story=Story(name, {}))


def calls(subject: ModelSubject, folder: Path, batch: int, prompt: int, tokens: int) -> dict[str, Callable[[], Any]]:
    """Per way of writing a call that gives the new tokens."""
    from transformers import AutoModelForCausalLM

    import evodevo.hf  # noqa: F401

    hf, source = folder / "hf", folder / "source"
    for name, place in (("hf", hf), ("source", source)):
        place.mkdir(exist_ok=True)
        MODEL_EXPORTERS.get(name).write(subject, place)
    exported = AutoModelForCausalLM.from_pretrained(hf).eval()
    spec = importlib.util.spec_from_file_location("written", source / "model.py")
    assert spec is not None
    assert spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    plain = written.load()
    ids = torch.randint(0, VOCABULARY, (batch, prompt), generator=torch.Generator().manual_seed(1))
    greedy = SamplingSettings(temperature=0.0)
    settings: dict[str, Any] = {"do_sample": False, "use_cache": True, "eos_token_id": None, "pad_token_id": 0}

    def in_transformers() -> Any:
        with torch.no_grad():
            found = exported.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, **settings)
        return found[:, prompt:]

    return {
        "ours": lambda: subject.model.continue_text(ids, tokens, sampling=greedy),
        f"transformers ({exported.config.model_type})": in_transformers,
        "model.py": lambda: plain.generate(ids, tokens, temperature=0),
    }


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=256, depth=12, prompt=128, tokens=64, rounds=5)
    shape = f"D={options.width}, {options.depth} LIVs, V={VOCABULARY}, float32"
    report = Report("Generation of exported backbones", settings={"shape": shape})
    for name in BACKBONES:
        for batch in (1, 8):
            with tempfile.TemporaryDirectory() as folder:
                ways = calls(
                    drawn(name, options.width, options.depth), Path(folder), batch, options.prompt, options.tokens
                )
                same = {way: call() for way, call in ways.items()}
                agree = {way: float((tokens == same["ours"]).float().mean()) for way, tokens in same.items()}
                seconds = take_turns(ways, options.rounds)
            for way, values in seconds.items():
                speed = Spread.of([batch * options.tokens / value for value in values])
                report.rows.append(
                    {
                        "backbone": name,
                        "batch": str(batch),
                        "way": way,
                        "tokens/s": speed.show(),
                        "speed / ours": ratio(seconds["ours"], values).show(),
                        "same tokens": f"{agree[way]:.0%}",
                    }
                )
    report.finish(options.json)


if __name__ == "__main__":
    main()
