"""Each kind of path keeps the laws; a row that is added to the table needs a request here, or this fails."""

from __future__ import annotations

import copy
import functools
import shutil
from collections.abc import Callable
from pathlib import Path as Folder
from typing import Any

import pytest

from evodevo.multitask.evaluate import measure_path
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.kinds import KINDS, structure_of
from evodevo.multitask.paths.network.imports import read_import
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.multitask.path_kinds import TRAINING, PathKindTests, Request
from fixtures.clients import client_text
from fixtures.imports import H_MODEL, checkpoint_of
from fixtures.path_requests import NEW, ask, path_of, request_of

VISION = {"width": 8, "heads": 2, "hidden": 16, "layers": 1, "image_size": 8, "patch": 4}
CONVOLUTION = {"widths": [8, 16], "layers": 1, "image_size": 8}
MLP = {"width": 16, "layers": 1, "inputs": 17, "indicated": 6}
TEXT = {"width": 16, "heads": 2, "hidden": 16, "layers": 1, "length": 32}
NGRAMS = {"width": 8, "buckets": 256, "length": 32, "layers": 1}
TOPICS: dict[str, Any] = {"samples": {"train": 400, "validation": 80, "test": 80}, "classes": 2}
TEXTS = {"source": "text_labels", "options": {"tokenizer": "bytes", "length": 32, "topics": TOPICS}}
Answer = dict[str, Any]
Made = tuple[Folder, Request, Answer]


def path(kind: str, structure: dict[str, Any], classes: int, **other: Any) -> dict[str, Any]:
    return path_of(kind, structure, classes, hparams={"opt_lr": 0.1}, **other)


def whole(place: dict[str, str], genome: dict[str, Any], **other: Any) -> Request:
    return request_of(place, genome, training=TRAINING, **other)


def vision(place: dict[str, str]) -> Request:
    return whole(place, path("vision_path", VISION, 10))


def convolution(place: dict[str, str]) -> Request:
    return whole(place, path("convolution_path", CONVOLUTION, 10))


def text(place: dict[str, str]) -> Request:
    return whole(place, path("text_path", TEXT, 2), task_settings=TEXTS)


def ngrams(place: dict[str, str]) -> Request:
    return whole(place, path("ngram_path", NGRAMS, 2), task_settings=TEXTS)


def mlp(place: dict[str, str]) -> Request:
    """Rows with numbers, some of them missing, categories and dates."""
    data = Folder(place["cache"]) / "clients.csv"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(client_text(400))
    return whole(place, path("mlp_path", MLP, 2), task_settings={"source": "rows", "data": str(data)})


def network(place: dict[str, str]) -> Request:
    """An import whose head learns, and one of its parts."""
    pool = FolderPool(Folder(place["blobs"]))
    found = read_import(pool, checkpoint_of(pool, H_MODEL))
    parts: dict[str, Any] = {role: {"digest": one, "how": "reference"} for role, one in found.digests.items()}
    parts["core"] |= {"train": True, "how": "clone"}
    genome = path("network_path", found.structure.model_dump(mode="json"), 10)
    roles = structure_of(validate(Path, genome, what="a path")).roles
    return whole(place, genome, components=parts | {role: NEW for role in roles if role not in parts})


def multipath(place: dict[str, str]) -> Request:
    """Two vision paths, one of which was trained for the task."""
    main, other = (path("vision_path", VISION, 10, agent=f"VitTiny~{name}") for name in ("task", "other"))
    digests = {role: one["digest"] for role, one in ask(whole(place, main))["components"].items()}
    inside = [{"agent": one["agent"], "number": 0} for one in (main, other)]
    genome = path("multipath", {}, 10, agent="MultiVitTiny~task", paths=inside)
    supports = [{"path": one, "components": digests} for one in (main, other)]
    return whole(place, genome, components={"connector_1": NEW, "router": NEW}, supports=supports)


@pytest.mark.slow
def test_a_multipath_begins_as_its_main_path_and_is_never_kept_below_it(tmp_path: Folder) -> None:
    request = multipath({"blobs": str(tmp_path / "blobs"), "cache": str(tmp_path / "cache")})
    main = request["supports"][0]
    parts = {role: {"digest": digest, "how": "reference"} for role, digest in main["components"].items()}
    alone = ask({**request, "path": main["path"], "components": parts, "supports": []})
    ruined = {**request["path"], "hparams": {**request["path"]["hparams"], "opt_lr": 1e4, "opt_lr_warmup_ratio": 0.0}}
    training = {**request["training"], "first_look": True, "clip": 1e6}
    answer = ask({**request, "path": ruined, "training": training})
    assert answer["evals"][0] == alone["quality"]
    assert answer["kept"] == 0, f"training has made it better: {answer['evals']}"
    assert answer["quality"] == alone["quality"]
    assert "kept what it begins with" in answer["explanation"]
    kept = {role: {"digest": one["digest"], "how": "reference"} for role, one in answer["components"].items()}
    measured = [
        ask({**one, "split": "test"}, measure_path)
        for one in (
            {**request, "components": kept},
            {**request, "path": main["path"], "components": parts, "supports": []},
        )
    ]
    assert measured[0]["answers"] == measured[1]["answers"]


REQUESTS = {
    "vision_path": vision,
    "convolution_path": convolution,
    "text_path": text,
    "ngram_path": ngrams,
    "mlp_path": mlp,
    "network_path": network,
    "multipath": multipath,
}
ROWS = [
    one
    if one in ("vision_path", "convolution_path", "mlp_path", "ngram_path")
    else pytest.param(one, marks=pytest.mark.slow)
    for one in KINDS.names()
]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """A kind's folder, request and answer."""

    @functools.cache
    def made(kind: str) -> Made:
        folder = tmp_path_factory.mktemp(kind)
        request = REQUESTS[kind]({"blobs": str(folder / "blobs"), "cache": str(folder / "cache")})
        answer = ask(request)
        assert answer["reason"] is None, answer["detail"]
        return folder, request, answer

    return made


@pytest.mark.parametrize("kind", ROWS)
class TestPathKinds(PathKindTests):
    @pytest.fixture(autouse=True)
    def _of_kind(self, kind: str) -> None:
        self.kind = kind

    def request(self, place: dict[str, str]) -> Request:
        return REQUESTS[self.kind](place)

    @pytest.fixture
    def asked(self, once: Callable[[str], Made], place: dict[str, str], tmp_path: Folder) -> tuple[Request, Answer]:
        """A copy for each law: the request is trained once."""
        folder, request, answer = once(self.kind)
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return copy.deepcopy({**request, **place}), copy.deepcopy(answer)
