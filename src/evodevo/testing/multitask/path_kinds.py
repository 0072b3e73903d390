"""The laws of a kind of path at work; a test inherits them and gives the request to a worker.

A kind is a row of ``paths.kinds.KINDS``. Whatever it builds, only what the request lets learn is new
afterwards, everything follows from the request, and stated costs are counted ones.
"""

from __future__ import annotations

import math
import shutil
from abc import ABC, abstractmethod
from pathlib import Path as Folder
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.evaluate import evaluate_path, measure_path, open_path
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.genome import Path
from evodevo.multitask.paths.built import PathSamples
from evodevo.multitask.paths.kinds import KINDS, structure_of
from evodevo.multitask.paths.weights import count_parameters
from evodevo.multitask.training.values import DataValues
from evodevo.multitask.transfer import probe as transfer_probe
from evodevo.multitask.transfer.probe import evaluate_transfer
from evodevo.multitask.transfer.problem import TABLE
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.testing.multitask.paths import answer_of

Request = dict[str, Any]
TRAINING = {"validations": 2, "most_between": 400, "validation_cap": 80, "device": "cpu"}
"""For a class that has none of its own."""
_TRAINED: dict[tuple[type, str], tuple[Folder, str, dict[str, Any]]] = {}


class PathKindTests(ABC):
    """Laws of one kind.

    Attributes:
        kind: a row of ``KINDS``.
    """

    kind: str

    @abstractmethod
    def request(self, place: dict[str, str]) -> Request:
        """A child to be trained: some of its components learn, at least one begins anew.

        Args:
            place: ``blobs`` and ``cache``, folders; blobs that the request names are put there.
        """

    @pytest.fixture
    def place(self, tmp_path: Folder) -> dict[str, str]:
        return {"blobs": str(tmp_path / "blobs"), "cache": str(tmp_path / "cache")}

    @pytest.fixture
    def asked(self, tmp_path: Folder, tmp_path_factory: pytest.TempPathFactory) -> tuple[Request, dict[str, Any]]:
        """The request, in a folder of its own, and what became of it; each class trains each kind once."""
        key = type(self), self.kind
        if key not in _TRAINED:
            folder = tmp_path_factory.mktemp("trained")
            request = self.request({"blobs": str(folder / "blobs"), "cache": str(folder / "cache")})
            answer = _ask(request)
            assert answer["reason"] is None, answer["detail"]
            _TRAINED[key] = folder, canonical.dumps(request), answer
        folder, written, answer = _TRAINED[key]
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return canonical.loads(written.replace(str(folder), str(tmp_path))), answer

    def test_it_is_a_row_of_the_table(self, place: dict[str, str]) -> None:
        request = validate(PathRequest, self.request(place), what="a request")
        assert self.kind in KINDS
        assert request.path.kind == self.kind
        plain = canonical.loads(canonical.dumps(request.model_dump(mode="json")).encode())
        assert validate(PathRequest, plain, what="a request") == request

    def test_everything_follows_from_the_request(self, asked: tuple[Request, dict[str, Any]]) -> None:
        request, answer = asked
        assert _ask(request) == answer
        assert _ask({**request, "seed": request["seed"] + 1})["components"] != answer["components"]

    def test_only_what_is_asked_for_learns_and_becomes_new_blobs(self, asked: tuple[Request, dict[str, Any]]) -> None:
        request, answer = asked
        learning = {role for role, source in request["components"].items() if source.get("train")}
        assert set(answer["components"]) == learning
        given = {source["digest"] for source in request["components"].values()}
        assert given.isdisjoint(component["digest"] for component in answer["components"].values())
        pool = FolderPool(Folder(request["blobs"]))
        assert all(pool.verify(digest) is None for digest in pool.digests()), "no blob was written to"

    def test_what_is_stated_is_counted(self, asked: tuple[Request, dict[str, Any]]) -> None:
        request, answer = asked
        built, _, _ = open_path(validate(PathRequest, request, what="a request"))
        counted = {role: count_parameters(part) for role, part in built.components.items()}
        trained = {role: component["parameters"] for role, component in answer["components"].items()}
        assert trained == {role: counted[role] for role in trained}
        assert answer["trainable"] == sum(trained.values())
        assert answer["parameters"] == built.parameters >= sum(counted.values())
        assert answer["flops"] == built.flops > 0
        path = validate(Path, request["path"], what="a path")
        if not KINDS.get(self.kind).joins:
            family = KINDS.get(self.kind).single()
            structure = structure_of(path)
            stated = family.parameters(structure)
            assert counted == {role: stated[role] for role in counted}
            assert built.flops == family.flops(structure)

    def test_what_was_kept_answers_as_it_was_measured(self, asked: tuple[Request, dict[str, Any]]) -> None:
        request, answer = asked
        kept = _kept(request, answer)
        first, again = _logits(kept), _logits(kept)
        assert torch.equal(first, again)
        assert first.shape == (40, request["path"]["classes"])
        assert not torch.equal(first, _logits(request)), "training has changed what it says"
        assert _ask(kept)["evals"] == [answer["quality"]], "nothing learns: one look, at the same samples"
        measured = _ask({**kept, "split": "test"}, measure_path)
        assert 0 <= measured["accuracy"] <= 1
        assert measured["samples"] >= 40

    def test_below_its_bar_it_leaves_nothing(self, asked: tuple[Request, dict[str, Any]]) -> None:
        request, answer = asked
        pool = FolderPool(Folder(request["blobs"]))
        before = set(pool.digests())
        discarded = _ask({**request, "bar": answer["quality"]})
        assert (discarded["reason"], discarded["improved"], discarded["components"]) == (None, False, {})
        assert set(pool.digests()) == before

    def test_a_damaged_or_missing_component_is_named(self, asked: tuple[Request, dict[str, Any]]) -> None:
        request, answer = asked
        kept = _kept(request, answer)
        role, component = next(iter(answer["components"].items()))
        kept["components"][role] |= {"source": "Class~task:7"}
        file = FolderPool(Folder(request["blobs"])).path(component["digest"])
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.chmod(0o600)
        file.write_bytes(data)
        for _ in range(2):
            refused = _ask(kept)
            assert refused["reason"] == "damaged"
            assert component["digest"] in refused["detail"]
            assert "Class~task:7" in refused["detail"]
            assert repr(role) in refused["detail"]
            file.unlink(missing_ok=True)

    def test_another_number_of_classes_is_refused(self, place: dict[str, str]) -> None:
        request = self.request(place)
        request["path"] = {**request["path"], "classes": request["path"]["classes"] + 1}
        with pytest.raises((UsageError, ValueError), match=r"classes|answers"):
            _ask(request)

    def test_inside_another_model_it_represents_as_it_does_alone(self, asked: tuple[Request, dict[str, Any]]) -> None:
        """With its head and without, at any company; a kind that joins others is part of none."""
        if KINDS.get(self.kind).joins:
            return
        request, answer = asked
        kept = validate(PathRequest, _kept(request, answer), what="a request")
        digests = {role: component.digest or "" for role, component in kept.components.items()}
        pool = FolderPool(Folder(kept.blobs))
        _, task, _ = open_path(kept)
        samples = PathSamples(task, "test", np.arange(40), DataValues(), 0, None)
        whole, bare = (KINDS.get(self.kind).single().freeze(kept.path, digests, pool, head) for head in (True, False))
        with torch.no_grad():
            logits, represented = (model.path({str(model.path.reads): model.read(samples)}) for model in (whole, bare))
        torch.testing.assert_close(logits, _logits(kept.model_dump(mode="json")), rtol=1e-5, atol=1e-6)
        assert represented.shape == (40, bare.width)
        assert whole.flops > bare.flops
        canonical.dumps({"structure": dict(bare.structure), "preparation": dict(bare.preparation)})
        assert not any(parameter.requires_grad for parameter in bare.path.parameters())

    def test_a_probe_reads_what_it_represents(self, asked: tuple[Request, dict[str, Any]]) -> None:
        if KINDS.get(self.kind).joins:
            pytest.skip("no agent builds on a path that joins others")
        request = _kept(*asked)
        digests = {role: source["digest"] for role, source in request["components"].items()}
        known = {"path": request["path"], "components": digests}
        probe: Request = {"agent": "A~b", "paths": [known], "view": 1, "seed": 3}
        same = ("task", "task_settings", "training", "blobs", "cache")
        probe |= {name: request[name] for name in same if name in request}
        table = _ask(probe, evaluate_transfer)[TABLE]
        (row,) = table["rows"]
        computed: list[int] = []

        def represented(*given: Any) -> Any:
            computed.append(len(given[2]))
            return compute(*given)

        compute = transfer_probe.represented
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(transfer_probe, "represented", represented)
            again = _ask(probe, evaluate_transfer)[TABLE]["rows"][0]
            assert {**again, "seconds": 0.0} == {**row, "seconds": 0.0}
            assert not computed, "what it represents is kept"
            training = {**probe.get("training", {}), "representations": False}
            _ask({**probe, "training": training}, evaluate_transfer)
            assert computed == [table["samples"]]
            larger = table["samples"] == transfer_probe.SAMPLES
            if larger:
                _ask({**probe, "seed": 4}, evaluate_transfer)
            assert len(computed) == 1 + larger, "other samples of its task are not"
        path = validate(Path, request["path"], what="a path")
        bare = KINDS.get(self.kind).single().freeze(path, digests, FolderPool(Folder(request["blobs"])), False)
        assert (row["path"], row["width"]) == (path.id, bare.width)
        assert 0 < row["loss"] < math.log(1e6) + 1e-3
        assert 0 < table["samples"] <= 500
        assert 0 < table["prior"] <= math.log(path.classes) + 1e-4


def _ask(request: Request, what: Any = evaluate_path) -> dict[str, Any]:
    return answer_of(what(canonical.dumps(request).encode(), lambda message: None))


def _kept(request: Request, answer: dict[str, Any]) -> Request:
    """The path that training made, nothing of which learns any more."""
    parts = {role: {**source, "train": False, "how": "reference"} for role, source in request["components"].items()}
    for role, component in answer["components"].items():
        parts[role]["digest"] = component["digest"]
    return {**request, "components": parts}


def _logits(request: Request) -> Tensor:
    built, task, _ = open_path(validate(PathRequest, request, what="a request"))
    read = built.reader(task, "test", DataValues(), 0)
    with torch.no_grad():
        answer: Tensor = built.model.eval()(read(np.arange(40), None))
    return answer
