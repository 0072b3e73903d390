"""Roots of the package: what is in the files, who begins with them, and the command that trains them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from evodevo.cli.application import run
from evodevo.errors import EvodevoError, NotFoundError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.paths.convolution.model import ConvolutionPath
from evodevo.multitask.paths.convolution.spec import PRESETS, role_parameters
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.roots.files import FOLDER, STRUCTURE, builtin_root, structure_in
from evodevo.multitask.roots.training import (
    TrainingSet,
    accuracy,
    changed,
    divided,
    drawn_set,
    save,
    stored_set,
    trained,
)
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.system import System
from evodevo.storage import Store

NAME = "builtin:characters"


def test_each_root_is_small_has_a_card_and_a_preset_s_structure() -> None:
    files = sorted(FOLDER.glob("*.safetensors"))
    assert files
    for file in files:
        assert file.stat().st_size < 1_000_000
        card = file.with_suffix(".md").read_text(encoding="utf-8")
        assert all(word in card for word in ("Licence", "evodevo.multitask.roots.training", "test"))
        weights = load_file(file)
        assert all(tensor.isfinite().all() for tensor in weights.values())
        preset = PRESETS["tiny" if file.stem.endswith("_tiny") else "small"]
        assert sum(tensor.numel() for tensor in weights.values()) == sum(role_parameters(preset).values())
        assert structure_in(file) == preset.model_dump(mode="json")


@pytest.mark.parametrize(("words", "name"), [([], NAME), (["--class", "ConvTiny"], f"{NAME}_tiny")])
def test_it_is_the_root_of_its_class_where_nobody_names_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str
) -> None:
    store = tmp_path / "runs"
    assert run(["extend", "create", "zoo", *words, "--store", str(store)]) == 0
    said = capsys.readouterr()
    assert f"Its root is {name}," in said.err + said.out
    with SerialExecutor() as executor, Store.open(store) as opened:
        system = System.open(opened, "zoo")
        system.run(system.agents(), 1, executor)
        (root,) = system.view().offers.values()
        file = builtin_root(name)
        assert file is not None
        weights = load_file(file)
        for part in root.components:
            state = load_state(opened.blobs, part.digest, part.role)
            assert all(torch.equal(tensor, weights[f"{part.role}.{name}"]) for name, tensor in state.items())


def test_another_class_structure_or_word_begins_otherwise(tmp_path: Path) -> None:
    def how(name: str, **other: object) -> tuple[str, str | None]:
        made = create_system(name, store=tmp_path / "runs", **other)  # type: ignore[arg-type]
        options = made.agent.settings["options"]
        return options["root"], options.get("checkpoint")

    assert how("a") == ("checkpoint", NAME) == how("b", root=NAME)
    assert how("c", kind="ConvTiny") == ("checkpoint", f"{NAME}_tiny")
    assert how("c2", kind="ConvBase") == ("random_init", None)
    assert how("d", overrides={"root": {"structure": {"widths": [16, 32]}, "hyperparameters": {"num_layers": {
        "values": [1, 2], "default": 1}}}}) == ("random_init", None)  # fmt: skip
    assert how("e", root="random_init") == ("random_init", None)
    with pytest.raises(UsageError, match="characters"):
        create_system("f", root="builtin:faces", store=tmp_path / "runs")
    with pytest.raises(UsageError, match="a structure of its own"):
        create_system("g", root=NAME, overrides={"root": {"structure": {"widths": [16]}}}, store=tmp_path / "runs")


def test_a_file_of_a_root_is_a_root_and_another_file_is_none(tmp_path: Path) -> None:
    mine = tmp_path / "mine.safetensors"
    structure = PRESETS["tiny"].changed(widths=(8, 16, 24))
    made = ConvolutionPath.fresh(structure, 5)
    save(made, mine)
    store = tmp_path / "runs"
    create_system("zoo", root=f"checkpoint:{mine}", store=store)
    with SerialExecutor() as executor, Store.open(store) as opened:
        system = System.open(opened, "zoo")
        system.run(system.agents(), 1, executor)
        (root,) = system.view().offers.values()
        assert root.path.structure["widths"] == [8, 16, 24]
        for part in root.components:
            state = load_state(opened.blobs, part.digest, part.role)
            assert all(torch.equal(one, made.parts[part.role].state_dict()[name]) for name, one in state.items())
    new = add_task("zoo", "digits", store=store, cache_folder=tmp_path / "cache")[0]
    assert new.agent.settings["options"]["hyperparameters"]["ds_shift"]["default"] > 0

    (tmp_path / "text.safetensors").write_text("no tensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "list.safetensors", metadata={STRUCTURE: "[1]"})
    save_file({"a": torch.zeros(1)}, tmp_path / "odd.safetensors", metadata={STRUCTURE: '{"widths": "wide"}'})
    for name, words in (("text", "is no root"), ("bare", "is no root"), ("list", "is no root"), ("odd", "widths")):
        with pytest.raises(EvodevoError, match=words):
            create_system(name, root=f"checkpoint:{tmp_path / name}.safetensors", store=store)
    with pytest.raises(NotFoundError, match=r"no file of a root at .*gone\.safetensors"):
        create_system("gone", root=f"checkpoint:{tmp_path}/gone.safetensors", store=store)
    with pytest.raises(UsageError, match="a structure of its own"):
        create_system("own", root=f"checkpoint:{mine}", overrides={"root": {"structure": {"grid": 1}}}, store=store)
    with pytest.raises(UsageError, match=r"checkpoint:FILE\.safetensors"):
        create_system("folder", root=f"checkpoint:{tmp_path}", store=store)


def test_new_agents_of_images_move_them_and_published_ones_do_not(tmp_path: Path) -> None:
    def of_agent(name: str, **other: object) -> object:
        create_system(name, store=tmp_path / "runs", **other)  # type: ignore[arg-type]
        made = add_task(name, "digits", store=tmp_path / "runs", cache_folder=tmp_path / "cache")
        return made[0].agent.settings["options"].get("hyperparameters", {}).get("ds_shift")

    usual = {"values": [0.0, 0.05, 0.1, 0.15, 0.2], "default": 0.1}
    assert of_agent("a") == of_agent("b", kind="ConvTiny") == usual
    still = {"values": [0.0], "default": 0.0}
    assert of_agent("c", overrides={"root": {"hyperparameters": {"ds_shift": still}}}) == still
    assert of_agent("d", kind="ConvTiny", overrides={"version": "v4b"}) is None
    assert of_agent("e", kind="VitTiny") is None


def test_the_command_s_training_is_a_function_of_its_seed_and_makes_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "set").mkdir()
    np.savez(tmp_path / "set" / "train.npz", x=rng.integers(0, 256, (30, 28, 28), np.uint8), y=rng.integers(3, 6, 30))
    one = stored_set(tmp_path / "set")
    assert (one.images.shape, one.count) == ((30, 1, 32, 32), 3)
    assert -1 <= float(one.images.min()) < float(one.images.max()) <= 1
    moved = changed(one.images, torch.Generator().manual_seed(1))
    assert moved.shape == one.images.shape
    assert not torch.equal(moved, one.images)
    first, again, other = (trained([one], "tiny", 192, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())
    save(trained([one], "tiny", 192, 0), tmp_path / "root.safetensors")
    assert json.dumps(structure_in(tmp_path / "root.safetensors")) == json.dumps(
        PRESETS["tiny"].model_dump(mode="json")
    )
    assert torch.equal(
        load_file(tmp_path / "root.safetensors")["encoderblock_0.first.weight"],
        first["parts.encoderblock_0.first.weight"],
    )


def test_images_that_are_held_out_are_no_training_images_and_judge(capsys: pytest.CaptureFixture[str]) -> None:
    classes = torch.arange(40) % 2
    images = (classes * 2.0 - 1)[:, None, None, None].expand(-1, 1, 32, 32) + torch.arange(40)[
        :, None, None, None
    ] / 1e4
    one = TrainingSet("set", images, classes)
    parts = [divided(one, 0.25, 3) for _ in range(2)]
    for learned, held in parts:
        assert (len(learned.images), len(held.images)) == (30, 10)
        both = torch.cat([learned.images, held.images])[:, 0, 0, 0]
        assert torch.equal(both.sort().values, images[:, 0, 0, 0].sort().values)
        assert torch.equal(
            (torch.cat([learned.images, held.images])[:, 0, 0, 0] > 0).long(),
            torch.cat([learned.classes, held.classes]),
        )
    assert torch.equal(parts[0][1].images, parts[1][1].images), "the same ones with one seed"
    assert not torch.equal(divided(one, 0.25, 4)[1].images, parts[0][1].images)
    learned, held = parts[0]
    path = trained([learned], "tiny", 64, 0, [held])
    assert "accuracy on images that were held out: set " in capsys.readouterr().out
    answering = nn.Linear(path.structure.width, 2)
    with torch.no_grad():
        answering.weight.zero_()
        answering.bias.copy_(torch.tensor([0.0, 1.0]))
    assert accuracy(path, answering, held) == pytest.approx(float((held.classes == 1).float().mean()))


def test_characters_of_a_font_are_drawn_in_the_middle() -> None:
    from PIL import ImageFont

    try:
        file = Path(str(ImageFont.truetype("DejaVuSans.ttf", 20).path))
    except OSError:
        pytest.skip("this machine has no DejaVuSans.ttf")
    drawn = drawn_set([file])
    assert drawn.count > 200
    ink = (drawn.images > 0).float()
    places = torch.arange(32.0)
    middle = (ink.sum((1, 2)) * places).sum(1) / ink.sum((1, 2, 3)).clamp(min=1)
    assert float(middle.median()) == pytest.approx(15.5, abs=1.5)
