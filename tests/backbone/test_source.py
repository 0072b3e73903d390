"""A backbone as one file of plain PyTorch: every class, every kind of sharing, alone and in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evodevo.backbone.source.program import program
from evodevo.export.fresh_process import run
from evodevo.export.models.base import ModelSubject
from evodevo.operators.classes import OPERATORS, liv_classes
from evodevo.operators.source.sheet import FILE, WEIGHTS
from evodevo.operators.spec import SHARED_ROLES
from evodevo.testing.model_exporters import backbone_subject

# Each folder's model answers at once, and in three pieces.
SCRIPT = """\
import sys
sys.modules["evodevo"] = None
import importlib.util, pathlib, torch
from safetensors.torch import load_file, save_file
place = pathlib.Path(sys.argv[1])
tokens, found = load_file(place / "tokens.safetensors")["tokens"], {}
torch.set_grad_enabled(False)
for folder in sorted(path for path in place.iterdir() if path.is_dir()):
    spec = importlib.util.spec_from_file_location(folder.name, folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.load()
    states = model.new_states()
    pieces = torch.cat([model(piece, states) for piece in tokens.split([1, 39, 5], 1)], 1)
    found |= {f"{folder.name}/whole": model(tokens), f"{folder.name}/pieces": pieces}
save_file(found, place / "answers.safetensors")
"""
TOKENS = torch.randint(0, 256, (2, 45), generator=torch.Generator().manual_seed(0))


def shared(number: int) -> str:
    """A genome of one class with weights shared, all features shared, and some of them, each by two LIVs."""
    row = liv_classes()[number]
    roles = len([role for role in SHARED_ROLES[row.spec.structure] if role != "query"])
    every, some = 2**roles, 1 + (2**roles - 1) // 2
    livs = [(1, 2, 1, 1), (1, 2, 2, 1), (3, 1, 3, every), (4, 1, 3, every), (5, 1, 5, some), (6, 1, 5, some)]
    return " ".join(".".join(map(str, (number, *genes))) for genes in livs)


def put(subject: ModelSubject, folder: Path) -> None:
    folder.mkdir()
    (folder / FILE).write_text(program(subject.model.structure, 256))
    save_file(subject.model.state_dict(), folder / WEIGHTS)


@pytest.mark.slow
def test_a_process_without_evodevo_gives_the_logits_of_every_class_with_every_sharing(tmp_path: Path) -> None:
    subjects = {name: backbone_subject(shared(OPERATORS.get(name).number)) for name in OPERATORS}
    subjects["mlp"] = backbone_subject(shared(8), long_filter="mlp", max_length=64)
    subjects["tied"] = backbone_subject(tied=True)
    for name, subject in subjects.items():
        put(subject, tmp_path / name)
    save_file({"tokens": TOKENS}, tmp_path / "tokens.safetensors")
    run(SCRIPT, tmp_path, b"")
    answers = load_file(tmp_path / "answers.safetensors")
    assert len(answers) == 2 * len(subjects) == 2 * (len(list(OPERATORS)) + 2)
    for name, subject in subjects.items():
        wanted = torch.from_numpy(subject.answer((TOKENS.numpy(),))[0])
        for way in ("whole", "pieces"):
            torch.testing.assert_close(
                answers[f"{name}/{way}"], wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()), msg=f"{name} {way}"
            )
        stored = sum(tensor.numel() for tensor in load_file(tmp_path / name / WEIGHTS).values())
        assert stored == sum(parameter.numel() for parameter in subject.model.parameters()), "shared ones once"


def test_equal_backbones_give_equal_text_with_only_what_they_use() -> None:
    plain = program(backbone_subject("11111 91111").model.structure, 256)
    assert plain == program(backbone_subject("11111 91111", seed=3).model.structure, 256)
    for word in ("scan", "convolve", "taps", "DifferentialPair", "layer.residual", "borrowed.items", "evodevo."):
        assert word not in plain, word
    compile(plain, FILE, "exec")
    assert max(map(len, program(backbone_subject().model.structure, 256).splitlines())) <= 120
