"""The source of paths of imported networks: what the network represents, its norm and its head, alone and combined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.export.folder import write_export
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.network.model import NetworkPath
from evodevo.multitask.paths.network.spec import NetworkInput, NetworkOutput, NetworkPart
from evodevo.multitask.run.dense_export import DensePath
from evodevo.multitask.source.exporter import PATH_SOURCE
from evodevo.multitask.source.program import path_program
from evodevo.networks.spec import NetworkEnvelope
from evodevo.settings import merge, validate
from evodevo.testing.exporters import CLASSES, IMAGE, subject, vision_path
from fixtures.block_paths import learned
from fixtures.imports import H_MODEL, small_structure

PICTURE = NetworkInput(name="image", modality="image", height=8, width=8, channels=1)
COLOURED = NetworkInput(name="image", modality="image", height=6, width=10, channels=3)
TEXT = NetworkInput(name="text", modality="tokens", length=12, vocabulary=256, tokenizer="bytes")
NUMBERS = NetworkInput(name="numbers", modality="vector", size=4)
H = H_MODEL.model_dump(mode="json")
ZOO = {
    "kind": "module_zoo",
    "structure": {
        "width": 8,
        "extractor": {"blocks": 0},
        "modules": [one.model_dump(mode="json") for one in start_zoo(8)[:3]],
    },
}
PARTS = {"h_model": ("inputs", "core"), "module_zoo": ("senses", "pool", "router")}


def changed(plain: dict[str, Any], **structure: Any) -> dict[str, Any]:
    return merge(plain, {"structure": structure})


def path_of(plain: dict[str, Any], *inputs: NetworkInput, classes: int = len(CLASSES), **more: Any) -> NetworkPath:
    genome = validate(NetworkEnvelope, {"network": plain}, what="a network").model_dump(mode="json")
    parts = [NetworkPart(role=name, name=name, parameters=1).model_dump() for name in PARTS[plain["kind"]]]
    structure = small_structure(*inputs).changed(genome=genome, parts=parts, classes=classes, **more)
    return learned(NetworkPath(structure))


def written(network: nn.Module) -> nn.Module:
    """The network of its source."""
    program = path_program(DensePath(network))
    assert max(map(len, program.text.splitlines())) <= 120
    names: dict[str, Any] = {"__file__": "model.py"}
    exec(compile(program.text, "model.py", "exec"), names)
    model: nn.Module = names["Model"]()
    stored = {**program.weights, **{name: program.weights[first] for name, first in names["SHARED"].items()}}
    model.load_state_dict(stored, assign=True)
    return model.eval()


def samples(modality: str) -> Tensor:
    rng = np.random.default_rng(3)
    if modality == "image":
        return torch.from_numpy(rng.integers(0, 256, (4, 11, 7, 3), dtype=np.uint8))
    if modality == "vector":
        return torch.from_numpy(rng.normal(size=(4, 4)).astype(np.float32))
    ids = rng.integers(1, 256, (4, 15))
    return torch.from_numpy(np.where(np.arange(15) < np.asarray([[1], [3], [9], [15]]), ids, -1))


@pytest.mark.parametrize("read", [PICTURE, COLOURED, TEXT, NUMBERS], ids=["grey", "coloured", "text", "numbers"])
@pytest.mark.parametrize(
    "plain",
    [
        H,
        changed(H, iterations=3, halting={"rule": "kl", "threshold": 0.5}),
        changed(H, iterations=3, halting={"rule": "act"}),
        changed(H, canvas="latents", slots=3),
        ZOO,
        changed(ZOO, router={"keys": "predictor", "top_k": 1}),
        changed(ZOO, readout=5, pool="attention"),
    ],
    ids=["h_model", "kl", "act", "latents", "zoo", "predictor", "readout"],
)
@torch.no_grad()
def test_the_source_answers_as_the_path(plain: dict[str, Any], read: NetworkInput) -> None:
    network, batch = path_of(plain, read), samples(read.modality)
    wanted = DensePath(network)(batch)
    assert len(wanted.unique(dim=0)) == 4, "samples differ"
    torch.testing.assert_close(written(network)(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


@torch.no_grad()
def test_an_h_model_of_several_outputs_is_their_mean() -> None:
    outputs = [NetworkOutput(name=name, kind="class", size=3).model_dump() for name in ("digit", "colour")]
    network, batch = path_of(H, PICTURE, outputs=outputs), samples("image")
    wanted = DensePath(network)(batch)
    torch.testing.assert_close(written(network)(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


@torch.no_grad()
def test_inputs_that_the_network_does_not_read_are_none() -> None:
    unread = TEXT.model_copy(update={"use": "unread"})
    network = path_of(changed(ZOO, without=["text"]), unread, PICTURE)
    batch = samples("image")
    wanted = DensePath(network)(batch)
    torch.testing.assert_close(written(network)(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


@torch.no_grad()
def test_several_imports_share_one_file(tmp_path: Path) -> None:
    """As the main path with a head and as supports without, next to a path of blocks."""
    main = path_of(ZOO, PICTURE)
    unread = TEXT.model_copy(update={"use": "unread"})
    wider = path_of(changed(ZOO, pool="attention", without=["text"]), unread, COLOURED, classes=0)
    others = [wider, path_of(H, COLOURED, classes=0), vision_path(1, classes=0)]
    frozen = [FrozenPath(one, reads=str(place)) for place, one in enumerate([main, *others])]
    joint = Multipath(frozen[0], frozen[1:], len(CLASSES), [8, 8, others[2].structure.width]).eval()
    for place in (1, 2, 3):
        nn.init.normal_(joint.get_submodule(f"connector_{place}").weight, std=9.0)  # type: ignore[arg-type]
    batch = torch.from_numpy(IMAGE.probe(3))
    wanted = DensePath(joint)(batch)
    assert not torch.allclose(wanted, DensePath(main)(batch), atol=0.1)
    torch.testing.assert_close(written(joint)(batch), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    made = write_export(PATH_SOURCE, subject(joint), tmp_path / "out")
    assert made.verified.difference <= 1e-5 * made.verified.scale


def test_a_network_without_source_is_refused_with_what_to_take() -> None:
    stack = {"width": 8, "layers": [{"kind": "transformer", "heads": 2}], "input_blocks": 0, "output_blocks": 1}
    genome = validate(NetworkEnvelope, {"network": {"kind": "stack", "structure": stack}}, what="a network")
    structure = small_structure().changed(
        genome=genome.model_dump(mode="json"), classes=5, parts=[{"role": "a", "name": "inputs", "parameters": 1}]
    )
    with pytest.raises(UsageError, match=r"^what a network of kind 'stack' represents has no source; take --to pt2\.$"):
        path_program(DensePath(NetworkPath(structure)))
    own = changed(H, stream="carried", own=[{"output": "digit", "layers": [0]}])
    with pytest.raises(UsageError, match=r"layers of an output's own represents has no source; take --to pt2\."):
        path_program(DensePath(path_of(own, PICTURE)))
