"""The Python files of the networks of a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evodevo.estimators.automatic.networks.predictor import NetworkPredictor, WrittenNetwork
from evodevo.estimators.automatic.source.root_program import written_root
from evodevo.module_zoo.source.program import zoo_program
from evodevo.networks.tensors import TensorNetwork

if TYPE_CHECKING:
    from evodevo.module_zoo.model import ModuleZoo

NETWORKS = "torch_networks.py"


def written_network(predictor: NetworkPredictor, facts: dict[str, Any], files: dict[str, str | Path]) -> dict[str, Any]:
    """Facts of a network with the place of its source; see ``ProbabilityModel.source``.

    Equal programs are one file.

    Raises:
        UsageError: A zoo with a part that has no source.
    """
    files[NETWORKS] = Path(__file__).with_name(NETWORKS).read_text(encoding="utf-8")
    plain = predictor.facts.structure.plain
    if plain is not None:
        if plain.root is not None:
            written_root(plain.root, files)
        return facts
    zoo = cast("ModuleZoo", predictor.network)  # the kind that such a structure is built as
    program = zoo_program(zoo, alone=False)
    known = next((name for name, text in files.items() if text == program.text), None)
    name = known or f"zoo_{len(files)}.py"
    files[name] = program.text
    own = zoo.state_dict()
    computed = {key: tensor.tolist() for key, tensor in program.weights.items() if key not in own}
    written = WrittenNetwork(file=name.removesuffix(".py"), inputs=tuple(TensorNetwork(zoo).names), computed=computed)
    return {**facts, "written": written.model_dump(mode="json")}
