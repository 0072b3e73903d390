"""The laws of every format of trained models, as tests to inherit.

class TestMine(ModelExporterTests):
    exporter = MINE
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.spec import BackboneStructure
from evodevo.errors import VerificationError
from evodevo.execution.environment import worker_environment
from evodevo.export.folder import CARD, Export
from evodevo.export.models.base import ModelExporter, ModelSubject, Story
from evodevo.export.models.write import write_model
from evodevo.networks.build import build_network
from evodevo.networks.tensors import TensorNetwork
from evodevo.runs.export import model_subject
from evodevo.tasks.text.language import windows_of
from evodevo.tasks.text.tokenizers import ByteTokenizer

MIXED = "11111 91111 51211 81111 51221 11112"
"""Attention, a gated unit, two recurrences with one featurizer, a long convolution."""


def backbone_subject(
    genome: str = MIXED, *, seed: int = 0, tied: bool = False, context_length: int = 24, **dimensions: Any
) -> ModelSubject:
    """A small backbone of bytes with drawn weights and logits that are not small."""
    space = {"depth": len(genome.split()), "dimensions": {"width": 64, "head_size": 16, **dimensions}}
    structure = BackboneStructure.model_validate({"space": space, "genome": genome, "tied": tied})
    network = build_network(BackboneNetwork(structure=structure), *windows_of(256, context_length), seed=seed)
    with torch.no_grad():
        network.norm.weight.mul_(20.0)
    story = Story(f"test of {genome}", {"genome": genome}, lineage=(("run.0.1", "mutation", "11111 91111"),))
    return model_subject(TensorNetwork(network), name="model", kind="backbone", story=story, tokenizer=ByteTokenizer())


@pytest.mark.slow
class ModelExporterTests:
    """Inherit, and set ``exporter``; ``genome`` where it cannot hold the mixed one."""

    exporter: ClassVar[ModelExporter]
    genome: ClassVar[str] = MIXED

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls) -> ModelSubject:
        return backbone_subject(cls.genome)

    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, subject: ModelSubject, tmp_path_factory: pytest.TempPathFactory) -> Export:
        return write_model(cls.exporter, subject, tmp_path_factory.mktemp("export") / "model")

    def test_a_fresh_process_gives_the_logits_of_the_network(self, written: Export) -> None:
        assert written.format == self.exporter.name
        assert written.verified.scale > 5
        assert written.verified.difference <= 1e-5 * written.verified.scale

    def test_equal_subjects_give_equal_bytes_and_the_network_stays_as_it_was(
        self, written: Export, tmp_path: Path
    ) -> None:
        again = backbone_subject(self.genome)
        before = {name: value.clone() for name, value in again.network.state_dict().items()}
        self.exporter.write(again, tmp_path)
        for file in tmp_path.iterdir():
            assert file.read_bytes() == (written.folder / file.name).read_bytes(), file.name
        assert all(torch.equal(value, before[name]) for name, value in again.network.state_dict().items())

    def test_what_answers_otherwise_leaves_nothing(
        self, subject: ModelSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        probes = subject.probes()
        wrong = [[tuple(one + 1 for one in subject.answer(probe))] for probe in probes]
        monkeypatch.setattr(type(self.exporter), "ask", lambda *_: wrong)
        monkeypatch.setattr(type(self.exporter), "write", lambda *_: self._nothing())
        with pytest.raises(VerificationError, match="differs"):
            write_model(self.exporter, subject, tmp_path / "out")
        assert list(tmp_path.iterdir()) == []

    @staticmethod
    def _nothing() -> Any:
        from evodevo.export.models.base import Written

        return Written()

    def test_the_manifest_holds_the_digest_of_every_file_and_no_file_names_code(self, written: Export) -> None:
        manifest = json.loads((written.folder / "manifest.json").read_text())
        files = {file.name: file for file in written.folder.iterdir() if file.name != "manifest.json"}
        assert manifest["files"] == {
            name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()
        }
        assert manifest["lineage"] == [["run.0.1", "mutation", "11111 91111"]]
        for name, file in files.items():
            content = file.read_bytes()
            assert b"auto_map" not in content, name
            assert str(Path(__file__).parents[1]).encode() not in content, name

    def test_the_examples_of_the_card_run(self, written: Export) -> None:
        card = (written.folder / CARD).read_text(encoding="utf-8")
        blocks = [block.split("```")[0] for block in card.split("```python\n")[1:]]
        assert blocks
        lead = "import sys\nsys.path.insert(0, '.')\n" + ("sys.modules['evodevo'] = None\n" if written.alone else "")
        words = [sys.executable, "-P", "-B", "-W", "ignore", "-c", lead + "\n".join(blocks)]
        variables = worker_environment(os.environ, threads=1)
        done = subprocess.run(words, cwd=written.folder, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout
