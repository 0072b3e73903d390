"""Every row of the table of nodes keeps the laws of ``NodeTests``, and its description loads no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evodevo.errors import UsageError
from evodevo.module_zoo.modules.nodes.base import BUILT_IN, NODES, NodeSpec
from evodevo.module_zoo.modules.nodes.convolution import ConvolutionNode
from evodevo.module_zoo.modules.nodes.norm import NormNode
from evodevo.operators.layers.liv import LIVLayer
from evodevo.testing.zoo_modules import NodeTests

SETTINGS = {"layer": {"layer": LIVLayer(operator="Rec-1", head_size=4)}}
"""Of kinds that have no defaults for all."""


class TestEveryKind(NodeTests):
    @pytest.fixture(params=BUILT_IN)
    def node(self, request: pytest.FixtureRequest) -> NodeSpec:
        return NODES.get(request.param)(id="node", **SETTINGS.get(request.param, {}))


def test_the_built_in_rows_keep_their_order() -> None:
    assert set(BUILT_IN) <= set(NODES.names())
    # Trained routers and strategists read vectors in this order.
    assert (
        *("attention", "feed_forward", "convolution", "lstm", "squeeze_excite", "norm", "projection", "gate"),
        *("layer", "sum", "concat"),
    ) == BUILT_IN


def test_a_convolution_of_one_tap_is_position_wise() -> None:
    assert ConvolutionNode(id="c", kernel=1).position_wise
    assert not ConvolutionNode(id="c", kernel=3).position_wise


def test_a_node_that_reads_one_value_joins_nothing() -> None:
    with pytest.raises(UsageError, match="'n' \\(norm\\) reads one value"):
        NormNode(id="n").join([])


@pytest.mark.slow
def test_descriptions_of_nodes_load_no_torch() -> None:
    script = (
        "import sys\n"
        "from evodevo.module_zoo.modules.nodes.base import NODES\n"
        "for name in NODES:\n"
        "    NODES.get(name)\n"
        "    if 'torch' in sys.modules: sys.exit(f'{name} loads torch')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
