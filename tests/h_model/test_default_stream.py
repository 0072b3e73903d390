"""The default stream is the carried one; records, which do not name the paper's, mean what they meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.h_model.core import HCore
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.variants import constant, independent, opponents
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.space import HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.h_model.spec import BALANCE, CarriedStructure, HModelStructure, RegularisationStructure, paper, preset
from evodevo.networks.build import build_network
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.randomness import generator
from evodevo.settings import merge, validate
from evodevo.testing.networks import CLASS, TEXT

SMALL: dict[str, Any] = {"width": 8, "hidden": [{"kind": "mlp", "hidden": 4}] * 3, "iterations": 2}
SMALL_LAYERS: dict[str, Any] = {**SMALL, "hidden": (MLPLayer(hidden=4),) * 3}


def read(values: dict[str, Any]) -> HModelStructure:
    """As files and stores are read."""
    return HModelStructure.model_validate_json(json.dumps(values))


def test_nobody_who_names_no_stream_gets_the_papers() -> None:
    assert HModelStructure().stream == preset("wide").stream == HModelNetwork().structure.stream == "carried"
    assert "4 transformer, in 4 iterations" in HModelNetwork().describe()[0]
    assert read(SMALL).stream == validate(HModelStructure, SMALL, what="it").stream == "carried"
    inner = {"kind": "h_model", "structure": SMALL}
    assert [layer.structure.stream for layer in read({**SMALL, "hidden": [inner]}).hidden] == ["carried"]  # type: ignore[union-attr]


@given(st.sampled_from(["paper", "carried"]), st.sampled_from([0.0, BALANCE, 0.5, None]), st.integers(1, 3))
def test_a_record_is_what_was_recorded(stream: str, balance: float | None, m: int) -> None:
    losses = {} if balance is None else {"regularisation": {"balance": balance}}
    routing = {"carried": {"m": m}} if stream == "carried" else {}
    inner = {"kind": "h_model", "structure": {**SMALL, "stream": stream}}
    made = read({**SMALL, **losses, **routing, "stream": stream, "hidden": [*SMALL["hidden"], inner]})
    recorded = made.model_dump(mode="json")
    assert ("stream" in recorded) == (stream == "carried")
    assert read(recorded) == validate(HModelStructure, recorded, what="it") == made
    assert read(recorded).model_dump(mode="json") == recorded
    # Changes of a record, as settings on the command line make them, leave its stream alone.
    assert validate(HModelStructure, merge(recorded, {"alpha": 0.5}), what="it").stream == stream


@pytest.mark.parametrize(
    ("changes", "balance"),
    [
        ({}, BALANCE),
        ({"regularisation": {"z": 0.1}}, BALANCE),
        ({"regularisation": RegularisationStructure(z=0.1)}, BALANCE),
        ({"regularisation": {"balance": 0.0}}, 0.0),
        ({"regularisation": RegularisationStructure(balance=0.0)}, 0.0),
        ({"carried": CarriedStructure(m=2)}, BALANCE),
        ({"carried": CarriedStructure(m=3)}, 0.0),
        ({"hidden": SMALL_LAYERS["hidden"][:1]}, 0.0),
        ({"carried": CarriedStructure(routes=RoutesStructure(input="x", slots=(0, 3), layers=(0, 1, 2)))}, 0.0),
        ({"stream": "paper"}, 0.0),
    ],
    ids=str,
)
def test_layers_are_balanced_where_a_router_chooses_and_nobody_set_a_weight(
    changes: dict[str, Any], balance: float
) -> None:
    made = HModelStructure(**{**SMALL_LAYERS, **changes})
    assert made.regularisation.balance == balance
    assert made.regularisation.model_copy(update={"z": 0.0}) == RegularisationStructure(balance=balance)


def test_as_printed_is_the_same_whatever_stream_it_was() -> None:
    assert paper(HModelStructure()) == paper(HModelStructure(stream="paper"))
    kept = paper(HModelStructure(stream="paper", regularisation=RegularisationStructure(balance=0.3)))
    assert kept.regularisation.balance == 0.3


def test_controls_of_a_carried_model_are_the_same_layers_in_the_papers_stream() -> None:
    hidden = (MLPLayer(hidden=4), MLPLayer(hidden=5))
    carried = HModelStructure(width=8, hidden=hidden, iterations=2)
    printed = HModelStructure(width=8, hidden=hidden, iterations=2, stream="paper")
    for control in (constant, independent):
        assert control(carried) == control(printed)
    assert opponents(carried, "quick") == opponents(printed, "quick")
    for plan in opponents(carried, "full"):
        build_network(plan.network, (TEXT,), (CLASS,), 0)


def test_a_default_model_runs_one_layer_of_a_sample_in_each_iteration() -> None:
    model = build_network(HModelNetwork(structure=HModelStructure(width=16)), (TEXT,), (CLASS,), 0).eval()
    core = model.core
    assert isinstance(core, HCore)
    with torch.no_grad():
        model({"text": torch.arange(24).reshape(2, 12) % 11})
    assert sum(core.runner.rows) == 2 * HModelStructure().iterations


class TestSpace:
    def test_it_searches_what_the_stream_has(self) -> None:
        space = HModelSpace(HModelSpaceSettings(structure=HModelStructure(width=64)))
        rng = generator(0)
        for _ in range(20):
            genome = space.sample(rng)
            assert (genome.mode, genome.aggregation) == ("dense", "sum")
            assert space.structure(genome).stream == "carried"
        assert len(HModelSpaceSettings(structure=HModelStructure(stream="paper")).modes) > 1

    def test_a_genome_means_the_same_before_and_after_it_was_stored(self) -> None:
        all_run = HModelStructure(width=64, hidden=(MLPLayer(),) * 2, carried=CarriedStructure(m=2))
        made = HModelSpaceSettings(hidden_range=(2, 5), structure=all_run)
        again = HModelSpaceSettings.model_validate_json(made.model_dump_json())
        genome = HModelSpace(made).parse("T2 a1 r1 sum dense | mlp mlp mlp")
        structures = [HModelSpace(each).structure(genome) for each in (made, again)]
        assert structures[0] == structures[1]
        assert structures[0].regularisation.balance == 0

    def test_what_is_asked_for_and_is_not_there_is_refused(self) -> None:
        with pytest.raises(UsageError, match="carried stream of structure has"):
            HModelSpace(HModelSpaceSettings(modes=("dense", "target_topm")))

    def test_recorded_settings_are_those_that_were_recorded(self) -> None:
        for stream in ("paper", "carried"):
            made = HModelSpaceSettings(structure=HModelStructure(stream=stream))
            recorded = json.loads(made.model_dump_json())
            assert HModelSpaceSettings.model_validate_json(json.dumps(recorded)) == made
