"""Small networks as checkpoints and as imports, for tests of what systems make of them. Nothing is trained."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.multitask.agents.network import ImportedPart, ImportOptions
from evodevo.multitask.paths.network.spec import NetworkInput, NetworkOutput, NetworkPart, NetworkStructure
from evodevo.multitask.settings import AgentSettings
from evodevo.networks.spec import NetworkEnvelope, NetworkSpec
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

H_MODEL = HModelNetwork(
    structure=HModelStructure(
        width=8, hidden=(TransformerLayer(heads=2),) * 2, iterations=1, input_blocks=0, output_blocks=0
    )
)
IMAGE = InputSpec("image", "image", height=8, width=8, channels=1)
DIGIT = OutputSpec("digit", "class", 10, names=tuple(map(str, range(10))))


def small_structure(*inputs: NetworkInput, **changes: Any) -> NetworkStructure:
    """An H-Model over these inputs, or one image; its parts are stated, not counted."""
    image = NetworkInput(name="image", modality="image", height=8, width=8, channels=1)
    parts = (
        NetworkPart(role="inputs", name="inputs", parameters=168),
        NetworkPart(role="core", name="core", parameters=1285),
    )
    digit = NetworkOutput(name="digit", kind="class", size=10)
    values: dict[str, Any] = {"inputs": inputs or (image,), "outputs": (digit,), "parts": parts, "width": 8, **changes}
    return NetworkStructure(genome=NetworkEnvelope(network=H_MODEL).model_dump(mode="json"), **values)


def small_import() -> AgentSettings:
    """Settings of an agent that hands in such a network, whose blobs are nowhere."""
    structure = small_structure()
    parts = {part.role: ImportedPart(digest="0" * 64, parameters=part.parameters) for part in structure.parts}
    options = ImportOptions(structure=structure.model_dump(mode="json"), components=parts)
    return AgentSettings(classes=0, root=True, options=options.model_dump(mode="json"))


def checkpoint_of(
    pool: BlobPool,
    network: NetworkSpec,
    inputs: tuple[InputSpec, ...] = (IMAGE,),
    outputs: tuple[OutputSpec, ...] = (DIGIT,),
    *,
    seed: int = 0,
    **about: Any,
) -> str:
    """The digest of a checkpoint of an untrained network, as a run keeps it.

    Args:
        pool: pool of the store.
        network, inputs, outputs: the network, its inputs and its outputs.
        seed: seed of its weights.
        about: ``task``, ``task_settings`` and ``newborns``, where a test reads them.
    """
    from evodevo.networks.build import build_network
    from evodevo.training import checkpoints

    specification = {
        "inputs": [asdict(spec) for spec in inputs],
        "outputs": [asdict(spec) for spec in outputs],
        **about,
    }
    return checkpoints.save(
        pool,
        build_network(network, inputs, outputs, seed),
        genome=NetworkEnvelope(network=network).model_dump(mode="json"),
        input_specification=specification,
    )
