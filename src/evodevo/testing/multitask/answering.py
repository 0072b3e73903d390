"""A small system on disk whose paths really answer, made in about a second: nothing is trained, weights are drawn.

Its tasks have no data anywhere: all that is known of them is what their agents recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch

from evodevo.execution.base import Report
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask import problem
from evodevo.multitask.evaluate import evaluate_root
from evodevo.multitask.evaluate_settings import PathRequest, read_request
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.paths.weights import count_parameters
from evodevo.multitask.run.samples import OwnSamples
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.randomness import integer_seed
from evodevo.search.problem import Outcome, write_answer
from evodevo.storage import Store
from evodevo.storage.pools import pool_at
from evodevo.tasks.inputs import InputSpec
from evodevo.training.parts import save_part
from evodevo.training.precision import decide

NAME, LETTERS = "gallery", "letters"
SHAPES, COLOURS = "shapes", "colours"
CLASSES: Mapping[str, tuple[str, ...]] = {SHAPES: ("circle", "square", "a | star"), COLOURS: ("red", "blue")}
INPUTS: Mapping[str, InputSpec] = {
    SHAPES: InputSpec("image", "image", height=10, width=12, channels=1),
    COLOURS: InputSpec("image", "image", height=8, width=8, channels=3),
}
MULTI = f"MultiVitTiny~{SHAPES}"
QUALITY = {f"VitTiny~{SHAPES}": 0.5, f"VitTiny~{COLOURS}": 0.75, MULTI: 0.625}
SIZES = {"num_layers": {"values": [0, 1, 2], "default": 1}, "ds_image_size": {"values": [8, 16], "default": 8}}
ROOT = {"structure": {"width": 8, "heads": 2, "hidden": 8}, "hyperparameters": SIZES}


def answering_system(folder: Path, *, recorded: bool = True, more: Mapping[str, AgentSettings] | None = None) -> None:
    """Make the system ``gallery`` in a new store.

    Args:
        folder: folder of the store.
        recorded: whether agents have recorded the names of their classes and the inputs of a sample.
        more: further tasks, each with the settings of its agent.
    """
    with Store.open(folder) as store:
        cycle = CycleSettings(samples=1, generation_size=1)
        system = System.create(store, NAME, seed=5, settings=SystemSettings(cycle=cycle))
        system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
        for kind, task in (("VitTiny", SHAPES), ("VitTiny", COLOURS), ("MultiVitTiny", SHAPES)):
            system.add_agent(kind, task, _settings(kind, task, recorded))
        for task, settings in (more or {}).items():
            system.add_agent("VitTiny", task, settings)
        with SerialExecutor(evaluators={"path": _drawn, "path_root": evaluate_root}) as executor:
            system.run(system.agents(), 1, executor)


def answering_texts(folder: Path, *, recorded: bool = True) -> None:
    """As ``answering_system``: the system ``letters`` with one task of texts as bytes."""
    sizes = {"num_layers": {"values": [0, 1], "default": 1}, "ds_length": {"values": [16, 32], "default": 32}}
    root = {"structure": {"width": 8, "heads": 2, "hidden": 8}, "hyperparameters": sizes}
    agent = AgentSettings(
        classes=2,
        task={"source": "text_labels", "data": "/nowhere/at/all"},
        options={"hyperparameters": sizes},
        modalities=("tokens:bytes",),
        class_names=("prose", "verse") if recorded else (),
        inputs=(asdict(InputSpec("text", "tokens", length=64, vocabulary=256)),) if recorded else (),
    )
    with Store.open(folder) as store:
        cycle = CycleSettings(samples=1, generation_size=1)
        system = System.create(store, LETTERS, seed=5, settings=SystemSettings(cycle=cycle))
        system.add_root("TextTiny", "random_init", AgentSettings(classes=0, options=root))
        system.add_agent("TextTiny", "style", agent)
        with SerialExecutor(evaluators={"path": _drawn, "path_root": evaluate_root}) as executor:
            system.run(system.agents(), 1, executor)


def _settings(kind: str, task: str, recorded: bool) -> AgentSettings:
    return AgentSettings(
        classes=len(CLASSES[task]),
        task={"data": "/nowhere/at/all"},
        options={"hyperparameters": SIZES} if kind == "VitTiny" else {},
        class_names=CLASSES[task] if recorded else (),
        inputs=(asdict(INPUTS[task]),) if recorded else (),
    )


def _drawn(payload: bytes, report: Report) -> bytes:
    """An evaluator: what it is to train gets weights from a generator, and its agent's accuracy from a table."""
    request = read_request(payload)
    pool = pool_at(request.blobs)
    built = KINDS.get(request.path.kind).build(request, pool, OwnSamples((), {}), decide("cpu"))
    made = {role: _weights(request, role, built.components[role]) for role in request.trained}
    quality = QUALITY.get(request.path.agent, 0.5)
    return write_answer(
        Outcome(
            scores={"quality": quality},
            extra={
                problem.EVALS: [quality],
                problem.IMPROVED: True,
                problem.SIZES: {role: count_parameters(part) for role, part in made.items()},
                "flops": built.flops,
            },
            blobs={role: save_part(pool, part.state_dict()) for role, part in made.items()},
        )
    )


def _weights(request: PathRequest, role: str, part: torch.nn.Module) -> torch.nn.Module:
    chance = torch.Generator().manual_seed(integer_seed(request.seed, "drawn", role))
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance))
    return part
