"""The laws of every format of exports, as tests to inherit.

class TestMine(ExporterTests):
    exporter = MINE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo.execution.environment import worker_environment
from evodevo.export import verify
from evodevo.export.base import Component, Exporter, ExportSubject, Logits, Provenance, SampleInput, Samples
from evodevo.export.folder import CARD, Export, write_export
from evodevo.export.image_input import ImageInput
from evodevo.export.row_input import RowInput
from evodevo.export.text_input import TextInput
from evodevo.export.verify import probes
from evodevo.multitask.paths.blocks_spec import EMBEDDING
from evodevo.multitask.paths.convolution.model import ConvolutionPath
from evodevo.multitask.paths.convolution.spec import ConvolutionStructure
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.mlp.model import MLPPath
from evodevo.multitask.paths.mlp.spec import MLPStructure
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.paths.ngrams.model import NgramPath
from evodevo.multitask.paths.ngrams.spec import NgramStructure
from evodevo.multitask.paths.text.model import TextPath
from evodevo.multitask.paths.text.model import build_component as text_component
from evodevo.multitask.paths.text.spec import TextStructure
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.multitask.run.dense_export import DensePath
from evodevo.tasks.text.tokenizers import Tokenizer, train_bpe

CLASSES = ("circle", "square", "star")
IMAGE = ImageInput(6, 9, 3)
ROWS = RowInput(
    6,
    ("a", "b", "a is missing", "b is missing", "c = x", "c = y"),
    (),
    np.array([3, -2, 0, 0, 0.5, 0.5], np.float32),
    np.array([2, 1, 0.5, 0.5, 0.5, 0.5], np.float32),
)
TEXTS = TextInput(20, 30)
"""Bytes; see ``subword_texts``."""
LONGER = "Größe, 東京 and 🙂 are longer than what is read"
SIZES = (1, 4, 31)
"""Numbers of samples that a fresh process answers."""


@cache
def subword_texts() -> TextInput:
    """Texts as the subwords of a small tokenizer."""
    tokenizer = train_bpe([f"the cat number {n} sat on the mat, größer and 東京".encode() for n in range(40)], 300)
    return TextInput(TEXTS.length, 45, tokenizer)


def vision_path(seed: int = 0, **changed: object) -> VisionPath:
    """A small path with drawn weights, the head's too."""
    sizes = {"width": 8, "heads": 2, "hidden": 8, "layers": 1, "image_size": 8, "patch": 4, "classes": len(CLASSES)}
    path = VisionPath.fresh(VisionStructure.model_validate({**sizes, **changed}), seed)
    _draw(path, seed)
    return path


def convolution_path(seed: int = 0, **changed: object) -> ConvolutionPath:
    """A small convolutional path with drawn weights."""
    sizes = {"widths": (8, 16), "layers": 2, "image_size": 9, "classes": len(CLASSES)}
    path = ConvolutionPath.fresh(ConvolutionStructure.model_validate({**sizes, **changed}), seed)
    _draw(path, seed)
    return path


def mlp_path(seed: int = 0, **changed: object) -> MLPPath:
    """A small path over ``ROWS`` with drawn weights and statistics."""
    sizes = {"width": 6, "layers": 2, "inputs": ROWS.size, "indicated": 2, "classes": len(CLASSES)}
    path = MLPPath.fresh(MLPStructure.model_validate({**sizes, **changed}), seed)
    _draw(path, seed)
    chance = torch.Generator().manual_seed(seed)
    for name, value in path.named_buffers():
        value.copy_(torch.rand(value.shape, generator=chance) + (0.5 if name.endswith("factor") else 0))
    return path


def mlp_multipath() -> Multipath:
    """A path over rows and one support, which shares nothing with it."""
    main, other = mlp_path(1), mlp_path(2, classes=0)
    frozen = [FrozenPath(path, reads=f"{path.structure.inputs} numbers") for path in (main, other)]
    joint = Multipath(frozen[0], frozen[1:], len(CLASSES), [6])
    for part in joint.components().values():
        _draw(part, 3)
    return joint.eval()


def ngram_path(seed: int = 0, **changed: object) -> NgramPath:
    """A small path over texts as bags of n-grams, with drawn weights."""
    sizes = {"width": 6, "buckets": 97, "length": TEXTS.length, "layers": 1, "classes": len(CLASSES)}
    path = NgramPath.fresh(NgramStructure.model_validate({**sizes, **changed}), seed)
    _draw(path, seed)
    return path


def text_path(seed: int = 0, subwords: Tokenizer | None = None, **changed: object) -> TextPath:
    """A small path over texts with drawn weights, which reads bytes or the ids of a tokenizer."""
    if subwords is not None:
        changed |= {"tokenizer": "bpe", "vocabulary": subwords.vocabulary}
    kept = b"" if subwords is None else subwords.to_bytes()
    sizes = {"width": 8, "heads": 2, "hidden": 8, "layers": 2, "length": TEXTS.length, "classes": len(CLASSES)}
    structure = TextStructure.model_validate({**sizes, **changed})
    made = {
        role: text_component(structure, role, seed, tokenizer=kept if role == EMBEDDING else b"")
        for role in structure.roles
    }
    path = TextPath(structure, made)
    _draw(path, seed)
    return path


def text_multipath(subwords: Tokenizer | None = None) -> Multipath:
    """A path over texts, and two supports: one that shares all its blocks with it, and one that reads less."""
    main = text_path(1, subwords)
    same = TextPath(main.structure.changed(classes=0), {role: main.parts[role] for role in main.structure.roles[:-1]})
    other = text_path(2, subwords, length=7, classes=0, layers=1)
    frozen = [FrozenPath(path, reads=f"{path.structure.length} tokens") for path in (main, same, other)]
    joint = Multipath(frozen[0], frozen[1:], len(CLASSES), [8, 8])
    for part in joint.components().values():
        _draw(part, 3)
    return joint.eval()


def multipath(**structure: object) -> Multipath:
    """A grey main path and two supports of other sizes, one of which shares all its blocks with the main path."""
    main = vision_path(1, channels=1)
    same = VisionPath(main.structure.changed(classes=0), {role: main.parts[role] for role in main.structure.roles[:-1]})
    other = vision_path(2, image_size=16, classes=0, layers=2)
    frozen = [
        FrozenPath(path, reads=f"{path.structure.image_size}/{path.structure.channels}") for path in (main, same, other)
    ]
    joint = Multipath(frozen[0], frozen[1:], len(CLASSES), [8, 8])
    joint.structure = joint.structure.model_copy(update=structure)
    for part in joint.components().values():
        _draw(part, 3)
    return joint.eval()


def subject(network: nn.Module, given: SampleInput = IMAGE) -> ExportSubject:
    """A network as it is exported."""
    dense = DensePath(network)

    def answer(samples: Samples) -> Logits:
        with torch.no_grad():
            logits: NDArray[np.float32] = dense(torch.from_numpy(samples)).numpy()
            return logits

    paths = ("A~shapes/0", "A~other/1", "A~root_model~x/0") if isinstance(network, Multipath) else ()
    parts = (
        Component("B~shapes/4", "head", "B~shapes:7", "0" * 64, 100),
        Component("A~shapes/0", "cls", "A~shapes:0", "1" * 64, 300),
    )
    made = Provenance(
        "gallery", "B~shapes", "shapes", "B~shapes/4", "multipath" if paths else "vision_path", 0.5, 0.25, 8, 1e6,
        parts, (("B~shapes/1", "num_layers"),), paths, "2026-01-01",
    )  # fmt: skip
    # A copy of its own: tracing may leave traced tensors in a module.
    return ExportSubject(DensePath(network), given, CLASSES, answer, made)


def _draw(module: nn.Module, seed: int) -> None:
    """Weights from a generator, the zeros of heads and connectors too."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance))
    module.eval()


@pytest.mark.slow
class ExporterTests:
    """Inherit, and set ``exporter``."""

    exporter: ClassVar[Exporter]

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls) -> ExportSubject:
        return subject(multipath())

    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, whole: ExportSubject, tmp_path_factory: pytest.TempPathFactory) -> Export:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verify, "probes", partial(probes, sizes=SIZES))
            return write_export(cls.exporter, whole, tmp_path_factory.mktemp("export") / "model")

    def test_a_fresh_process_answers_alike_for_any_number_of_samples(self, written: Export) -> None:
        assert written.verified.samples == sum(SIZES)
        assert written.verified.difference <= 1e-5 * written.verified.scale

    def test_equal_subjects_give_equal_bytes_and_the_network_stays_as_it_was(
        self, written: Export, tmp_path: Path
    ) -> None:
        network = multipath(skip_below=0.25)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        learn = network.learn(["router"])
        self.exporter.write(subject(network), tmp_path)
        assert (tmp_path / self.exporter.file).read_bytes() == (written.folder / self.exporter.file).read_bytes()
        assert network.structure.skip_below == 0.25
        assert all(parameter.requires_grad for parameter in learn)
        assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())

    def test_nothing_of_this_machine_or_of_our_code_is_in_the_file(self, written: Export) -> None:
        content = (written.folder / self.exporter.file).read_bytes()
        assert b"evodevo" not in content
        assert str(Path(__file__).parents[1]).encode() not in content

    def test_the_examples_of_the_card_run_where_evodevo_is_not(
        self, whole: ExportSubject, written: Export, tmp_path: Path
    ) -> None:
        from PIL import Image

        card = (written.folder / CARD).read_text(encoding="utf-8")
        (batch,) = probes(whole.input, (1,))
        Image.fromarray(batch[0]).save(tmp_path / "a.png")
        wanted = CLASSES[int(whole.answer(batch).argmax())]
        for heading, code in self.exporter.usage(whole):
            assert heading in card
            assert code in card
        printed = _run_without_us("\n".join(code for _, code in self.exporter.usage(whole)), written.folder, tmp_path)
        assert all(any(name in line for name in CLASSES) for line in printed.splitlines()), printed
        assert any("a.png" in line and wanted in line for line in printed.splitlines()), printed

    def test_rows_of_numbers_are_written_like_images(self, tmp_path: Path) -> None:
        for number, network in enumerate((mlp_path(), mlp_multipath())):
            given = subject(network, ROWS)
            written = write_export(self.exporter, given, tmp_path / str(number))
            assert written.verified.difference <= 1e-5 * written.verified.scale
            spec = json.loads((written.folder / "spec.json").read_text())
            assert spec["input"]["numbers"] == list(ROWS.names)
            card = (written.folder / CARD).read_text(encoding="utf-8")
            assert "Sorts rows of a table into 3 classes" in card
            assert "pipeline_tag: tabular-classification" in card
            (code,) = (code for _, code in self.exporter.usage(given))
            printed = _run_without_us(code, written.folder, tmp_path)
            assert len(printed.splitlines()) == 4
            assert all(any(name in line for name in CLASSES) for line in printed.splitlines())

    def test_texts_are_written_like_images(self, tmp_path: Path) -> None:
        subwords = subword_texts()
        networks = (
            (text_path(), TEXTS),
            (text_multipath(), TEXTS),
            (text_path(2, subwords.tokenizer), subwords),
            (ngram_path(), TEXTS),
        )
        for number, (network, read) in enumerate(networks):
            given = subject(network, read)
            written = write_export(self.exporter, given, tmp_path / str(number))
            assert written.verified.difference <= 1e-5 * written.verified.scale
            spec = json.loads((written.folder / "spec.json").read_text())
            tokens = "utf-8" if read is TEXTS else "tokenizer.json"
            assert (spec["input"]["shape"], spec["input"]["tokens"]) == ([None, TEXTS.length], tokens)
            assert "pipeline_tag: text-classification" in (written.folder / CARD).read_text(encoding="utf-8")
            tensors, texts = (code for _, code in self.exporter.usage(given))
            chosen = [CLASSES[place] for place in given.answer(read.encoded(["", "a", LONGER])).argmax(1)]
            # One interpreter for both, neither of which sees the names of the other.
            printed = _run_without_us(
                f"for code in {[tensors, texts]!r}:\n    exec(code, {{}})", written.folder, "", "a", LONGER
            )
            lines = printed.splitlines()
            assert len(lines) == 4 + len(chosen)
            assert [line.split()[0] for line in lines[4:]] == chosen

    def test_the_manifest_holds_the_digest_of_every_file(self, written: Export) -> None:
        import hashlib

        manifest = json.loads((written.folder / "manifest.json").read_text())
        files = {file.name: file for file in written.folder.iterdir() if file.name != "manifest.json"}
        assert manifest["files"] == {
            name: hashlib.sha256(digest.read_bytes()).hexdigest() for name, digest in files.items()
        }
        assert self.exporter.file in files


def _run_without_us(code: str, folder: Path, *given: str | Path) -> str:
    """Output of a script about a folder's a.png, or about texts, in an interpreter that cannot import evodevo."""
    script = f"import sys\nsys.modules['evodevo'] = None\n{code}"
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-B", "-W", "ignore", "-c", script),
            *(str(one / "a.png") if isinstance(one, Path) else one for one in given),
        ],
        cwd=folder,
        env=worker_environment(os.environ, threads=1),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout
    return done.stdout
