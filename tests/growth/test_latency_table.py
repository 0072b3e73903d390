"""A table of measured seconds foretells what was measured, without a look at the clock."""

from __future__ import annotations

import pytest
import torch

from evodevo.growth.latency import LatencyTable, Rate, latency, module_seconds
from evodevo.growth.zoo.calibration import calibrate
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.cost import genotype_work
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import archetype, start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.build import build_network
from evodevo.testing.networks import CLASS, IMAGE, TEXT, small_batch

WIDTH = 16


def structure(*archetypes: str, router: ZooRouterStructure | None = None) -> ZooStructure:
    modules = tuple(ZooModule(id=name, genotype=archetype(name, WIDTH)) for name in archetypes)
    return ZooStructure(width=WIDTH, modules=modules, router=router or ZooRouterStructure())


def test_seconds_are_calls_and_work() -> None:
    table = LatencyTable(batch=3, length=7, around=0.25, rates={"feed_forward": Rate(call=0.5, flop=1e-6)})
    genotype = archetype("mlp", WIDTH)
    nodes = [node for node in genotype.graph.nodes if node.type not in ("sum", "concat")]
    wanted = 0.5 * len(nodes) + 3e-6 * genotype_work(genotype, 7).total
    assert module_seconds(genotype, table) == pytest.approx(wanted)
    assert latency(structure("mlp"), table) == pytest.approx(0.25 + wanted)
    assert latency(structure("mlp", "cnn"), table) > latency(structure("mlp"), table)


def test_modules_that_are_not_run_take_no_time() -> None:
    table = LatencyTable(batch=3, length=7, around=0.0, rates={"norm": Rate(call=0.5, flop=0.0)})
    names = ("mlp", "cnn", "lstm", "squeeze_excite")
    dense, sparse = (
        latency(structure(*names, router=ZooRouterStructure(keys=keys, top_k=2)), table)
        for keys in ("output", "genotype")
    )
    assert sparse == pytest.approx(dense / 2)


@pytest.mark.slow
def test_a_measured_table_is_finite_and_tells_what_was_measured() -> None:
    zoo = build_network(
        ModuleZooNetwork(structure=ZooStructure(width=WIDTH, modules=start_zoo(WIDTH))), (IMAGE, TEXT), (CLASS,), 0
    )
    assert isinstance(zoo, ModuleZoo)
    zoo.train()
    stream = torch.random.get_rng_state()
    ticks = iter(range(10**6))
    batch = small_batch((IMAGE, TEXT), count=8)
    table = calibrate(zoo, batch, clock=lambda: float(next(ticks)))
    assert zoo.training
    assert torch.equal(stream, torch.random.get_rng_state())
    # This clock says that everything takes 1 s: each node costs a call, whatever its work.
    assert set(table.rates.values()) == {Rate(call=1.0, flop=0.0)}
    assert table.batch == 8
    assert LatencyTable.model_validate_json(table.model_dump_json()) == table
    real = calibrate(zoo, batch)
    assert latency(zoo.structure, real) > 0
    types = {node.type for module in zoo.structure.modules for node in module.genotype.graph.nodes}
    assert set(real.rates) == types - {"sum", "concat"}
