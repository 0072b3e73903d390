"""What a zoo uses is what it is built of, and caps are said by name."""

from __future__ import annotations

import pytest

from evodevo.errors import UsageError
from evodevo.growth.growable import TaskSizes
from evodevo.growth.latency import LatencyTable, Rate
from evodevo.growth.resources import Resources, check_start
from evodevo.growth.spec import CapSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.testing.networks import CLASS, IMAGE, TEXT

WIDTH = 16
STRUCTURE = GrowableZoo.of(ZooStructure(width=WIDTH, modules=start_zoo(WIDTH)))
TABLE = LatencyTable(batch=4, length=5, around=0.5, rates={"norm": Rate(call=0.01, flop=1e-9)})
TASK = TaskSizes((IMAGE, TEXT), (CLASS,), batch=32)


def test_parameters_are_those_of_the_network() -> None:
    network = build_network(ModuleZooNetwork(structure=STRUCTURE.structure), (IMAGE, TEXT), (CLASS,), 0)
    used = Resources.of(STRUCTURE, TASK)
    assert used.parameters == sum(one.numel() for one in network.parameters())
    assert used.latency is None


def test_memory_grows_with_the_batch_and_holds_four_copies() -> None:
    one, many = (Resources.of(STRUCTURE, TaskSizes((IMAGE, TEXT), (CLASS,), batch=batch)) for batch in (1, 64))
    assert many.memory_bytes > one.memory_bytes > 16 * one.parameters
    assert (many.memory_bytes - 16 * many.parameters) == pytest.approx(
        64 * (one.memory_bytes - 16 * one.parameters), rel=1e-4
    )


@pytest.mark.parametrize("name", ["parameters", "flops", "memory_bytes", "latency"])
def test_each_cap_is_exact(name: str) -> None:
    task = TaskSizes(TASK.inputs, TASK.outputs, TASK.batch, TABLE)
    used = getattr(Resources.of(STRUCTURE, task), name)
    check_start(STRUCTURE, task, CapSettings(**{name: used}))
    below = used * 0.99 if name in ("flops", "latency") else used - 1
    with pytest.raises(UsageError, match=f"over the cap of {name}.*Raise the cap"):
        check_start(STRUCTURE, task, CapSettings(**{name: below}))


def test_a_cap_of_latency_needs_a_table() -> None:
    with pytest.raises(UsageError, match="needs a table"):
        check_start(STRUCTURE, TASK, CapSettings(latency=1.0))


def test_no_cap_is_no_limit() -> None:
    assert Resources.of(STRUCTURE, TASK).excess(CapSettings()) is None
