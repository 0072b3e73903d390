"""First answers, inheritance and kept rows over real paths, and the ablations of Table 2, each trained as a switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.evaluate import open_path
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath.cache import PathCache, rows_key
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.multipath.reader import open_reader
from evodevo.multitask.paths.multipath.rows import CacheSettings
from evodevo.multitask.paths.multipath_spec import ABLATIONS, MultipathStructure
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.multitask.training.values import DataValues
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.testing.multitask.real_system import new_real_system, run_real

CLASSES, COUNT = 3, 40
SMALL = VisionStructure(width=16, heads=2, hidden=32, layers=1, image_size=8, patch=4, classes=CLASSES)
LARGE = VisionStructure(width=8, heads=2, hidden=16, layers=1, image_size=16, patch=8)


# The cache: docs/spec/munet.md#caching-and-skipping


def joined(dtype: torch.dtype, structure: MultipathStructure) -> Multipath:
    main, support = VisionPath.fresh(SMALL, 0), VisionPath.fresh(LARGE, 1)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in main.components()["head"].parameters():
            parameter.normal_(generator=generator)
    paths = [FrozenPath(main.to(dtype).eval(), reads=8), FrozenPath(support.to(dtype).eval(), reads=16)]
    return Multipath(paths[0], paths[1:], CLASSES, (LARGE.width,), structure).to(dtype)


def trained(model: Multipath, dtype: torch.dtype, cache: PathCache | None) -> dict[str, Tensor]:
    native = torch.rand(COUNT, 3, 16, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1
    sizes = {16: native.to(dtype), 8: nn.functional.avg_pool2d(native, 2).to(dtype)}
    labels = torch.arange(COUNT) % CLASSES

    def fetch(places: NDArray[np.int64]) -> dict[int, Tensor]:
        return {size: images[torch.from_numpy(places)] for size, images in sizes.items()}

    keys = {name: rows_key(name, {}, {}, "logits", "train", {}) for name in model.names}
    reader = open_reader(model, fetch, cache, keys, COUNT)
    optimizer = torch.optim.SGD(model.learn(model.components()), lr=0.1, momentum=0.8, nesterov=True)
    rng = np.random.default_rng(0)
    model.train()
    for _ in range(25):
        places = rng.integers(0, COUNT, 8)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(reader(places)), labels[torch.from_numpy(places)]).backward()
        optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("paths")}


@pytest.mark.parametrize("name", ["full", "no_decoupling", "ema"])
@pytest.mark.parametrize(
    ("dtype", "kept", "error"), [(torch.float64, "float64", 1e-6), (torch.float32, "float32", 1e-4)]
)
def test_kept_representations_of_transformers_change_no_training(
    tmp_path: Path, name: str, dtype: torch.dtype, kept: Any, error: float
) -> None:
    """docs/spec/munet.md#caching-and-skipping."""
    structure = ABLATIONS[name]
    wanted = trained(joined(dtype, structure), dtype, None)
    untrained = joined(dtype, structure).state_dict()
    cache = PathCache(tmp_path, CacheSettings(kept=kept))
    for _ in range(2):  # once it is filled, once it is full
        for key, value in trained(joined(dtype, structure), dtype, cache).items():
            torch.testing.assert_close(value, wanted[key], atol=error, rtol=0)
            if key.endswith("bias"):
                assert not torch.equal(value, untrained[key]), "something was learned"


# Over a system


def request_of(system: System, known: PublishedPath, folder: Path, *, fresh: bool) -> PathRequest:
    agent = system.agent(known.path.agent)
    inside = [system.library.by_number(one.agent, one.number) for one in known.path.paths]
    request = {
        "path": known.path.model_dump(mode="json"),
        "components": {part.role: {"digest": None if fresh else part.digest} for part in known.components},
        "supports": [
            {"path": sub.path.model_dump(mode="json"), "components": {p.role: p.digest for p in sub.components}}
            for sub in inside
        ],
        "task": agent.task,
        "task_settings": agent.settings["task"],
        "training": {"device": "cpu"},
        "blobs": str(system.store.blobs_folder),
        "cache": str(folder / "cache"),
    }
    return validate(PathRequest, request, what="request")


def logits(request: PathRequest) -> Tensor:
    built, task, _ = open_path(request)
    read = built.reader(task, "test", DataValues(), 0)
    with torch.no_grad():
        answer: Tensor = built.model.eval()(read(np.arange(64), None))
    return answer


@pytest.mark.slow
def test_a_multipath_model_begins_with_w_times_what_its_main_path_says(store: Store, tmp_path: Path) -> None:
    """Of the model that a system made: untrained it is 0.8 of the main path, trained it is not."""
    system = new_real_system(store)
    system.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10))
    run_real(system, 1, tmp_path)
    multi = system.view().offers["MultiVitTiny~digits"]
    main = logits(request_of(system, system.view().offers["VitTiny~digits"], tmp_path, fresh=False))
    first = logits(request_of(system, multi, tmp_path, fresh=True))
    torch.testing.assert_close(first, 0.8 * main, rtol=1e-5, atol=1e-6)
    assert torch.equal(first.argmax(1), main.argmax(1))
    assert not torch.allclose(logits(request_of(system, multi, tmp_path, fresh=False)), first)


@pytest.mark.slow
def test_every_ablation_is_a_switch_of_an_agent(store: Store, tmp_path: Path) -> None:
    """Each trains on the same copies of the same paths; which is better is not asserted."""
    system = new_real_system(store)
    run_real(system, 1, tmp_path)
    found: dict[str, Any] = {}
    for name, structure in ABLATIONS.items():
        copy = new_real_system(store, name=name)
        options = {"structure": structure.model_dump(mode="json")}
        copy.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10, options=options))
        run_real(copy, 1, tmp_path)
        known = copy.view().offers["MultiVitTiny~digits"]
        assert ("router" in {part.role for part in known.components}) == structure.has_router
        assert (
            copy.view().offers["VitTiny~digits"].components[0].digest
            == system.view().offers["VitTiny~digits"].components[0].digest
        )
        found[name] = tuple(part.digest for part in known.components)
    assert len(set(found.values())) == len(ABLATIONS), "no two of them learn alike"


@pytest.mark.slow
def test_a_forced_support_is_in_every_model(store: Store, tmp_path: Path) -> None:
    """Forced supports; here the root, which answers no task."""
    root = "VitTiny~root_model~random_init"
    system = new_real_system(store)
    options = {"child": {"supports": {"first": root}}}
    system.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10, options=options))
    run_real(system, 1, tmp_path)
    rows = store.individuals(system.agent("MultiVitTiny~digits").id)
    assert {row.genome_envelope["genes"]["paths"][1]["agent"] for row in rows} == {root}
