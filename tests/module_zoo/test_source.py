"""A zoo of modules as one file of plain PyTorch: every option of its structure answers as the library does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from evodevo.errors import UsageError
from evodevo.export.models.base import Story
from evodevo.export.models.source import SOURCE
from evodevo.export.models.write import write_model
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.nodes.base import BUILT_IN, NODES
from evodevo.module_zoo.modules.nodes.gate import GateNode
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import archetype
from evodevo.module_zoo.source.program import zoo_program
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure
from evodevo.networks.tensors import TensorNetwork
from evodevo.operators.source.sheet import SourceSheet
from evodevo.runs.export import model_subject
from evodevo.testing.networks import small_batch
from evodevo.testing.sources import check_layer, check_network
from evodevo.testing.zoo_modules import hybrid_of
from fixtures.small_zoo import WIDTH, lively, small_zoo
from module_zoo.modules.test_nodes import GENOTYPES


def values(structure: type[Any], field: str) -> tuple[Any, ...]:
    """The values that a field of literals may have."""
    found: tuple[Any, ...] = structure.model_fields[field].annotation.__args__
    return found


def router(field: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {f"{field}={one}": {"router": {field: one, **more}} for one in values(ZooRouterStructure, field)}


KINDS = values(FusionStructure, "kind")
PLAIN = {"projection": False, "temperature": "one", "norm": False, "values": "own", "concat_query": True}
CASES: dict[str, dict[str, Any]] = {
    **router("gate"),
    **{f"{name}, K=2": {"router": {**case["router"], "top_k": 2}} for name, case in router("gate").items()},
    **router("kind", top_k=2),
    **{
        f"{name}, values=paper": {"router": {**one["router"], "values": "paper"}}
        for name, one in router("kind").items()
    },
    **router("synergy", synergy_activation="tanh"),
    "synergy with itself": {"router": {"synergy_self": True, "synergy_activation": "relu"}},
    **router("keys", top_k=2),
    "identity": {"router": {"identity": True}},
    "identity, values=paper": {"router": {"identity": True, "values": "paper"}},
    "bare router": {"router": {"contribution": 0, "temperature": "one", "residual": False, "norm": False}},
    "learned head_mix": {"router": {"head_mix": "learned"}},
    **{f"fusion={kind}, {q} asks": {"fusion": {"kind": kind, "query": q}} for kind in KINDS for q in ("image", "text")},
    **{f"fusion={kind}, plain": {"fusion": {"kind": kind, "gate": "channel", **PLAIN}} for kind in KINDS},
    "fusion, relative positions": {"fusion": {"relative_positions": True, "gate": "half"}},
    "images alone": {"without": ["text"]},
    "texts alone": {"without": ["image"]},
    "vector": {"mode": "vector", "chunks": 4},
    "attention pool": {"pool": "attention"},
    "pool of positions": {"pool": "positions"},
    "readout": {"readout": 24},
    "pool of positions, images alone": {"pool": "positions", "without": ["text"]},
    "pool of positions, texts alone": {"pool": "positions", "without": ["image"]},
    "pool of positions, side by side": {"pool": "positions", "fusion": {"kind": "concat"}},
    "pool of positions, vector": {"pool": "positions", "mode": "vector", "chunks": 4},
    "nothing may be missing": {"missing": False},
    "a module that does not count": {"disabled": ["mlp-1"], "router": {"keys": "predictor", "top_k": 1}},
    "rectified patches": {"extractor": {"activation": "relu"}},
    "token-wise extractors": {"extractor": {"self_attention": False, "positions": False, "normalise": False}},
}


def moved_zoo(**changes: Any) -> ModuleZoo:
    """A small zoo with drawn parameters and contributions."""
    zoo = lively(small_zoo(count=5, **changes), 0.3)
    zoo.statistics.observe(zoo.live, torch.linspace(0.1, 0.9, len(zoo.live)))
    return zoo


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_every_option_answers_as_the_library(changes: dict[str, Any]) -> None:
    zoo = moved_zoo(**changes)
    check_network(zoo, zoo_program(zoo), scale=5.0)


@pytest.mark.parametrize("genotype", GENOTYPES.values(), ids=GENOTYPES)
def test_the_source_of_every_module_computes_what_it_computes(genotype: ModuleGenotype) -> None:
    spec = GenotypeLayer(module=ZooModule(id="one", genotype=genotype))
    torch.manual_seed(0)
    layer = spec.build(WIDTH, causal=False, residual=True)
    with torch.no_grad():
        for parameter in layer.parameters():  # gates start at zero
            parameter.add_(0.1 * torch.randn(parameter.shape))
    check_layer(spec, layer, WIDTH, causal=False)


def test_every_built_in_kind_of_node_is_in_some_tested_module() -> None:
    types = {node.type for genotype in GENOTYPES.values() for node in genotype.graph.nodes}
    assert types == set(BUILT_IN) <= set(NODES.names())


class UnwrittenNode(GateNode):
    """A node of a package that has not written its source."""

    source = GateNode.__mro__[1].source  # type: ignore[assignment]


def test_a_node_without_source_is_refused_with_one_sentence() -> None:
    genotype = hybrid_of(UnwrittenNode(id="node"), WIDTH)
    spec = GenotypeLayer.model_construct(module=ZooModule.model_construct(id="one", genotype=genotype))
    with pytest.raises(UsageError, match=r"^a node of kind 'gate' has no source; take --to pt2\.$"):
        spec.source(SourceSheet(), WIDTH, causal=False, residual=True)


# Growth and export


def test_a_grown_zoo_answers_as_the_library_and_a_half_born_module_is_refused() -> None:
    zoo = moved_zoo()
    born = ZooModule(id="child-1", genotype=archetype("mlp", WIDTH, depth=2), seed=7, parents=("mlp-1",))
    zoo.births[born.id] = 0.5
    zoo.insert(born)
    zoo.eval()
    with pytest.raises(UsageError, match=r"^modules that are half born \(child-1\) have no source; take --to pt2"):
        zoo_program(zoo)
    zoo.births.clear()
    zoo.remove("transformer-1")
    program = zoo_program(zoo)
    check_network(zoo, program, scale=5.0)
    assert "child-1" in program.text
    assert "transformer-1" not in program.text


@pytest.mark.slow
def test_a_trained_zoo_leaves_and_a_process_without_evodevo_answers_as_it(tmp_path: Path) -> None:
    zoo = small_zoo(count=3, router={"keys": "genotype", "top_k": 2})
    optimiser = torch.optim.AdamW(zoo.train().parameters(), lr=0.03)
    for step in range(6):
        optimiser.zero_grad()
        zoo.loss(small_batch(zoo.input_specs, zoo.output_specs, seed=step)).backward()
        optimiser.step()
        zoo.observe()
    subject = model_subject(TensorNetwork(zoo.eval()), name="it", kind="module_zoo", story=Story("it", {}))
    done = write_model(SOURCE, subject, tmp_path / "out")
    assert done.verified.difference <= 1e-5 * done.verified.scale
    stored = load_file(done.folder / "model.safetensors")
    assert not any(name.startswith(("alignment", "statistics", "senses.statistics")) for name in stored)


def test_equal_zoos_give_equal_text_with_one_class_for_equal_modules() -> None:
    twins = [
        ZooModule(id=f"mlp-{n}", genotype=archetype("mlp", WIDTH), seed=n).model_dump(mode="json") for n in range(3)
    ]
    text = zoo_program(small_zoo(modules=twins)).text
    assert text == zoo_program(lively(small_zoo(modules=twins, seed=4), 0.1)).text
    assert text.count("class MlpModule") == 1
    for word in ("LSTM", "entmax", "chosen = ", "synergy_self", "Conv1d"):
        assert word not in text, word
