"""Waits for a device: operations whose result Python has to know before it can go on. On a GPU each drains the queue.

No GPU is needed to count them: whoever fetches a number, a list or a count of entries does so on a CPU too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.h_model.runners.choice import RunnerName
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS, liv_classes
from evodevo.operators.spec import Dimensions
from evodevo.testing.networks import CLASS, TEXT, small_backbone, small_model, text_batch

FETCHES = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::bincount"}
DIMS = Dimensions(width=32, head_size=8, band=5)


class _Fetches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts fetches. What ``cpu`` has brought to the host, and what is computed from that alone, is there already."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: Counter[str] = Counter()
        self._host: dict[int, torch.UntypedStorage] = {}

    def bring(self, x: Tensor) -> Tensor:
        self.seen["cpu"] += 1
        copy = x.clone()
        self._keep(copy)
        return copy

    def on_host(self, x: Tensor) -> bool:
        return x.untyped_storage()._cdata in self._host

    def _keep(self, x: Tensor) -> None:
        self._host[x.untyped_storage()._cdata] = x.untyped_storage()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        name, result = function._schema.name, function(*args, **(kwargs or {}))
        if given and all(map(self.on_host, given)):
            for x in tree_leaves(result):
                if isinstance(x, Tensor):
                    self._keep(x)
        elif name in FETCHES or (name == "aten::index" and _by_mask(args[1])):
            self.seen[name] += 1
        return result


def _by_mask(indices: list[Tensor | None]) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


@contextmanager
def fetches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Fetches by name, with how often each ran. A list is read without an operation, so methods are watched."""
    mode, read = _Fetches(), Tensor.tolist

    def cpu(self: Tensor) -> Tensor:
        return mode.bring(self)

    def tolist(self: Tensor) -> Any:
        mode.seen["tolist"] += not mode.on_host(self)
        return read(self)

    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "tolist", tolist)
        patch.setattr(Tensor, "cpu", cpu)
        with mode:
            yield mode.seen


def test_the_count_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(3)
    with fetches(monkeypatch) as seen:
        int(x.max()), bool(x.any()), x.nonzero(), x[x > 1], x.tolist(), x.cpu()
        x.cpu().sum().tolist(), x.cpu().nonzero()
    assert seen == {"aten::_local_scalar_dense": 2, "aten::nonzero": 1, "aten::index": 1, "tolist": 1, "cpu": 3}


@pytest.mark.parametrize("name", [row.name for row in liv_classes().values()])
@pytest.mark.parametrize("masked", [False, True])
def test_no_operator_waits(name: str, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training and in the prefill of a prompt, with and without padding."""
    operator = build_operator(OPERATORS.get(name).spec, DIMS)
    x = torch.randn(2, 40, 32, requires_grad=True)
    mask = torch.arange(40) >= torch.tensor([[0], [7]]) if masked else None
    state = operator.initial_state(2, 40, torch.float32, x.device)
    with fetches(monkeypatch) as seen:
        operator(x, mask=mask).y.sum().backward()
        with torch.no_grad():
            operator(x, mask=mask, state=state)
    assert not seen


def test_no_backbone_waits_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    space = BackboneSpace(BackboneSettings(depth=8, dimensions=DIMS))
    for name in ("transformer++", "striped-mamba"):
        network = small_backbone(space, space.named(name), 11)
        batch = text_batch(torch.randint(11, (2, 17)))
        with fetches(monkeypatch) as seen:
            network.loss(batch).backward()  # type: ignore[no-untyped-call]
        assert not seen, name


def test_dense_routing_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model().train()
    batch = {"text": torch.randint(11, (4, 12)), "answer/target": torch.randint(3, (4,))}
    with fetches(monkeypatch) as seen:
        model.loss(batch).backward()  # type: ignore[no-untyped-call]
    assert not seen


@pytest.mark.parametrize("runner", ["loop", "grouped"])
def test_skipping_waits_once_in_an_iteration(runner: RunnerName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which samples each layer is for is fetched together; what follows on the host waits for no device."""
    model = small_model(lively=1.5, inference={"mode": "target_topm", "m": 1})
    model.runner = runner
    with torch.no_grad(), fetches(monkeypatch) as seen:
        model({"text": torch.randint(11, (4, 12))})
    assert +seen == {"cpu": model.iterations}
    assert sum(model.core.runner.rows) == 4 * model.iterations, "something was skipped"


def test_a_pool_waits_once_for_all_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = start_zoo(8)[:3]
    network = build_network(ModuleZooNetwork(structure=ZooStructure(width=8, modules=zoo)), (TEXT,), (CLASS,), 0)
    pool: Any = network.eval().pool
    ids, x = [one.id for one in zoo], torch.randn(5, 4, 8)
    chosen = torch.tensor([[True, False, True]] * 2 + [[False, False, True]] * 3)
    with torch.no_grad(), fetches(monkeypatch) as seen:
        u = pool(ids, x, None, chosen)
        dense = pool(ids, x, None)
    assert +seen == {"cpu": 1}
    torch.testing.assert_close(u, dense * chosen.unsqueeze(-1))
