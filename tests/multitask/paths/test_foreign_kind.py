"""A kind of path that a package adds is as good as a built-in one in every verb, from create to predict and export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path as Folder
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field
from torch import Tensor, nn

from evodevo.cli.application import run
from evodevo.errors import ExitCode, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.export.image_input import ImageInput
from evodevo.export.verify import probes
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.agents.singlepath import Singlepath
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Hyperparameters, Version, singlepath_hyperparameters
from evodevo.multitask.paths.built import BuiltPath, FrozenPart, PathSamples
from evodevo.multitask.paths.dense import DenseInput
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.kinds import KINDS, SinglepathKind
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.dense_export import DensePath
from evodevo.multitask.run.export import export_system
from evodevo.multitask.run.predict import open_answerer
from evodevo.multitask.run.run import run_system
from evodevo.multitask.source.program import path_program
from evodevo.multitask.source.written import WrittenPath
from evodevo.operators.source.sheet import Fragment, SourceSheet
from evodevo.settings import Settings, validate
from evodevo.storage import Store
from evodevo.storage.blobs import BlobPool
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision

KIND, CLASS = "testing.mean_rows", "MeanRows"
WRITTEN = Fragment(
    "MeanRows",
    '''
class MeanRows(nn.Module):
    """Images of bytes (B, height, width, channels) -> logits, or without a head the representation (B, D)."""

    def __init__(self, width, classes):
        super().__init__()
        parts = {"rows": nn.Sequential(nn.Linear(8, width), nn.Tanh())}
        self.parts = nn.ModuleDict(parts | ({"head": nn.Linear(width, classes)} if classes else {}))

    def forward(self, images):
        x = F.adaptive_avg_pool2d(images.permute(0, 3, 1, 2).float().mean(1, keepdim=True), (8, 1))[:, 0, :, 0] / 255
        for part in self.parts.values():
            x = part(x)
        return x
''',
)


class Structure(Settings):
    """Mean brightness of 8 rows of an image, a hidden layer, a head."""

    width: int = Field(default=6, ge=1)
    classes: int = Field(default=0, ge=0)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("rows", *(["head"] if self.classes else []))

    @property
    def input_spec(self) -> dict[str, Any]:
        return {"modality": "image", "size": [8, 8], "channels": 1}

    def signature(self, role: str) -> dict[str, Any]:
        return {"width": self.width} | ({"classes": self.classes} if role == "head" else {})

    def changed(self, **values: Any) -> Structure:
        return validate(Structure, {**self.model_dump(mode="json"), **values}, what="structure of the path")


class MeanRows(SinglepathKind):
    kind = KIND
    presets: Mapping[str, Any] = {"only": Structure()}
    fields: Mapping[str, str] = {}

    def structure_of(self, path: Path) -> Structure:
        return self.structure({**path.structure, "classes": path.classes}, path.id)

    def structure(self, values: Mapping[str, Any], what: str) -> Structure:
        return validate(Structure, dict(values), what=what)

    def parameters(self, structure: Structure) -> dict[str, int]:
        sizes = {"rows": 9 * structure.width, "head": (structure.width + 1) * structure.classes}
        return {role: sizes[role] for role in structure.roles}

    def flops(self, structure: Structure) -> float:
        return 2.0 * structure.width * (8 + structure.classes)

    def hyperparameters(self, size: str, version: Version) -> Hyperparameters:
        rows = singlepath_hyperparameters("tiny", version).rows
        return Hyperparameters(rows=tuple(row for row in rows if row.key.startswith(("opt_", "_mu_"))))

    def needs(self, structure: Structure) -> frozenset[str]:
        return frozenset({"image"})

    def build(self, request: PathRequest, pool: BlobPool, task: SampleTask, precision: Precision) -> BuiltPath:
        parts = _parts(self.structure_of(request.path), request.seed)
        for role, source in request.components.items():
            if source.digest is not None:
                parts[role].load_state_dict(load_state(pool, source.digest, role))
        structure = self.structure_of(request.path)
        return BuiltPath(Model(parts, structure), parts, self.flops(structure), _rows, precision)

    def freeze(self, path: Path, digests: Mapping[str, str], pool: BlobPool, head: bool) -> FrozenPart:
        structure = self.structure_of(path).changed(**({} if head else {"classes": 0}))
        parts = _parts(structure, 0)
        for role, part in parts.items():
            part.load_state_dict(load_state(pool, digests[role], role))
        plain = structure.model_dump(mode="json")
        frozen = FrozenPath(Model(parts, structure), reads="rows")
        return FrozenPart(frozen, _rows, plain, structure.input_spec, structure.width, self.flops(structure))

    def make_root(self, request: PathRequest, pool: BlobPool) -> Mapping[str, nn.Module]:
        return _parts(self.structure_of(request.path), request.seed)

    def source(self, path: Any, sheet: SourceSheet) -> WrittenPath:
        return WrittenPath(f"{sheet.add(WRITTEN)}({path.structure.width}, {path.structure.classes})")


class Model(nn.Module):
    kind = KIND

    def __init__(self, parts: Mapping[str, nn.Module], structure: Structure) -> None:
        super().__init__()
        self.structure = structure
        self.parts = nn.ModuleDict(dict(parts))

    def dense_inputs(self) -> dict[str, DenseInput]:
        return {"": DenseInput(self.structure, _read, "images", "bytes (B, height, width, 1 or 3)")}

    def forward(self, rows: Tensor) -> Tensor:
        for part in self.parts.values():
            rows = part(rows)
        return rows


def _parts(structure: Structure, seed: int) -> dict[str, nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rows = nn.Sequential(nn.Linear(8, structure.width), nn.Tanh())
        head = nn.Linear(structure.width, max(structure.classes, 1))
    return {"rows": rows} | ({"head": head} if structure.classes else {})


def _rows(samples: PathSamples) -> Tensor:
    return torch.cat([_means(one) for one in samples.images])


def _read(images: Tensor) -> Tensor:
    """As an exported path reads them: bytes (B, height, width, channels)."""
    return _means(images.permute(0, 3, 1, 2).float())


def _means(images: Tensor) -> Tensor:
    return nn.functional.adaptive_avg_pool2d(images.mean(1, keepdim=True), (8, 1))[:, 0, :, 0].div(255)


@pytest.fixture
def rows_of_a_package() -> Iterator[None]:
    KINDS.add(KIND, MeanRows())
    AGENTS.add(CLASS, Singlepath(CLASS, "only", "tiny", KIND))
    AGENTS.add(f"Multi{CLASS}", MultipathAgents(f"Multi{CLASS}", CLASS, KIND))
    yield
    KINDS._rows.pop(KIND)
    AGENTS._rows.pop(CLASS)
    AGENTS._rows.pop(f"Multi{CLASS}")


@pytest.mark.slow
def test_a_system_of_a_foreign_kind_goes_through_every_verb(
    rows_of_a_package: None, tmp_path: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    store, cache = tmp_path / "runs", tmp_path / "cache"
    given = {
        "cycle": {"samples": 1, "generation_size": 1},
        "training": {"validations": 1, "most_between": 200, "validation_cap": 80, "device": "cpu"},
    }
    create_system("rows", kind=CLASS, overrides=given, store=store, cache_folder=cache)
    for task in ("digits", "digits_parity"):
        add_task("rows", task, store=store, cache_folder=cache)
    with SerialExecutor() as executor:
        for agents in (["single"], ["multi"]):
            ended = run_system("rows", agents=agents, store=store, cache_folder=cache, executor=executor)
            assert ended.state == "finished"
    capsys.readouterr()
    assert run(["extend", "status", "rows", "--store", str(store), "--json"]) == ExitCode.SUCCESS
    told = json.loads(capsys.readouterr().out)
    names = [f"{CLASS}~digits", f"{CLASS}~digits_parity", f"Multi{CLASS}~digits", f"Multi{CLASS}~digits_parity"]
    assert set(names) <= {one["agent"] for one in told["agents"]}
    image = np.random.default_rng(1).integers(0, 256, (12, 9, 1), np.uint8)
    with Store.open(store) as opened:
        for name in (f"{CLASS}~digits", f"Multi{CLASS}~digits"):
            answerer = open_answerer(opened, "rows", "digits", name, cache_folder=cache)
            (answer,) = answerer.predict([image])
            assert len(answer.probabilities) == 10
            assert sum(answer.probabilities.values()) == pytest.approx(1)
            digit = image[:8, :8]  # of another size, predict resizes it to that of the task first
            (answer,) = answerer.predict([digit])
            made = export_system(opened, "rows", "digits", tmp_path / name, to="source", agent=name, cache_folder=cache)
            assert _asked(made.folder, digit) == pytest.approx(list(answer.probabilities.values()), abs=1e-5)
        # Whether it is written is a matter of its kind; a graph needs none.
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(MeanRows, "source")
            refused = tmp_path / "refused"
            with pytest.raises(UsageError, match=rf"^a path of kind '{KIND}' has no source; take --to pt2\.$"):
                export_system(opened, "rows", "digits", refused, to="source", agent=name, cache_folder=cache)
            assert not refused.exists()
            graph = export_system(opened, "rows", "digits", tmp_path / "graph", agent=name, cache_folder=cache)
            assert (graph.folder / "model.pt2").is_file()


ALONE = """
import json, sys
import torch
sys.path.insert(0, sys.argv[1])
import model
with torch.no_grad():
    answer = model.load()(torch.tensor(json.loads(sys.argv[2]), dtype=torch.uint8)).softmax(-1)
assert "evodevo" not in sys.modules
print(json.dumps(answer[0].tolist()))
"""


def _asked(folder: Folder, image: Any) -> list[float]:
    """Probabilities of the written file, in a process of its own."""
    words = [sys.executable, "-I", "-c", ALONE, str(folder), json.dumps([image.tolist()])]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    return [float(one) for one in json.loads(ended.stdout)]


@torch.no_grad()
def test_its_kind_writes_its_source(rows_of_a_package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    structure = Structure(classes=3)
    dense = DensePath(Model(_parts(structure, 1), structure))
    program = path_program(dense)
    names: dict[str, Any] = {"__file__": "model.py"}
    exec(compile(program.text, "model.py", "exec"), names)
    model = names["Model"]()
    model.load_state_dict(dict(program.weights))
    (batch,) = probes(ImageInput(11, 7, 1), (5,))
    torch.testing.assert_close(model(torch.from_numpy(batch)), dense(torch.from_numpy(batch)))
    monkeypatch.delattr(MeanRows, "source")
    with pytest.raises(UsageError, match=rf"^a path of kind '{KIND}' has no source; take --to pt2\.$"):
        path_program(dense)
    monkeypatch.delattr(Model, "kind")
    with pytest.raises(UsageError, match=r"^a Model has no source: it names no kind of path; take --to pt2\.$"):
        path_program(dense)


def test_a_path_that_joins_others_is_part_of_none() -> None:
    kind = KINDS.get("multipath")
    assert kind.joins
    with pytest.raises(UsageError, match="joins other paths"):
        kind.single()
