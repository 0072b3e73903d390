"""A system answers samples of one's own as its paths did when they were measured, without the data of its tasks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from evodevo.errors import DataError, NotFoundError, StoreDamagedError, UsageError
from evodevo.multitask.evaluate import open_path
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.run.export import export_system, subject_of
from evodevo.multitask.run.predict import PathPredictor, chosen_path, find_system, open_answerer
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.multitask.training.values import DataValues
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.multitask.answering import (
    CLASSES,
    COLOURS,
    LETTERS,
    MULTI,
    NAME,
    SHAPES,
    SIZES,
    answering_system,
    answering_texts,
)

SINGLE = f"VitTiny~{SHAPES}"


@pytest.fixture
def opened(gallery: Path) -> Iterator[Store]:
    with Store.open(gallery, "ro", create=False) as store:
        yield store


def pictures(count: int, shape: tuple[int, ...] = (10, 12)) -> list[NDArray[np.uint8]]:
    return [np.random.default_rng(place).integers(0, 256, shape, dtype=np.uint8) for place in range(count)]


def numbers(answers: Any) -> NDArray[np.float64]:
    return np.asarray([list(one.probabilities.values()) for one in answers])


@pytest.mark.slow
def test_the_path_with_the_best_validation_accuracy_answers_and_another_agent_when_it_is_named(opened: Store) -> None:
    best = open_answerer(opened, NAME, SHAPES)
    assert (best.agent, best.known.quality) == (MULTI, 0.625)
    other = open_answerer(opened, NAME, SHAPES, SINGLE)
    assert (other.agent, other.known.quality) == (SINGLE, 0.5)
    assert not np.allclose(numbers(best.predict(pictures(3))), numbers(other.predict(pictures(3))))


def test_names_and_sizes_are_known_where_the_data_are_gone(opened: Store) -> None:
    answerer = open_answerer(opened, NAME, COLOURS)
    assert answerer.classes == CLASSES[COLOURS]
    assert answerer.named
    (answer,) = answerer.predict(pictures(1, (8, 8, 3)))
    assert set(answer.probabilities) == set(CLASSES[COLOURS])
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert answer.chosen == max(answer.probabilities, key=answer.probabilities.__getitem__)
    assert answer.paths == ()


@pytest.mark.slow
def test_without_anything_recorded_classes_are_numbers_and_images_are_the_paths_own(tmp_path: Path) -> None:
    answering_system(tmp_path / "runs", recorded=False)
    with Store.open(tmp_path / "runs", "ro", create=False) as store:
        answerer = open_answerer(store, NAME, SHAPES, cache_folder=tmp_path / "cache")
        assert not answerer.named
        assert answerer.classes == ("0", "1", "2")
        assert (answerer.samples.only.height, answerer.samples.only.channels) in ((8, 3), (16, 3))  # type: ignore[union-attr]
        assert len(answerer.predict(pictures(2, (5, 9)))) == 2


@pytest.mark.parametrize("recorded", [True, False])
def test_texts_are_read_as_bytes_without_the_data_of_their_task(tmp_path: Path, recorded: bool) -> None:
    answering_texts(tmp_path / "runs", recorded=recorded)
    with Store.open(tmp_path / "runs", "ro", create=False) as store:
        answerer = open_answerer(store, LETTERS, "style", cache_folder=tmp_path / "cache")
        assert answerer.classes == (("prose", "verse") if recorded else ("0", "1"))
        one, other, again = answerer.predict(["Shall I compare thee", "Grüße", {"text": "Grüße"}])
        assert one.probabilities != other.probabilities
        assert again.probabilities == pytest.approx(dict(other.probabilities), abs=1e-6)
        assert answerer.predict(["Grüße"])[0].probabilities == pytest.approx(dict(other.probabilities), abs=1e-6)
        with pytest.raises(UsageError, match="image"):
            answerer.predict([np.zeros((4, 4), np.uint8)])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["source", "pt2"])
def test_an_export_of_texts_answers_as_predict_does_where_evodevo_is_not(tmp_path: Path, form: str) -> None:
    texts = ["a", "Grüße, 東京 🙂 and what is longer than any path reads" * 3, "two words", "\t"]
    answering_texts(tmp_path / "runs")
    with Store.open(tmp_path / "runs") as store:
        made = export_system(store, LETTERS, "style", tmp_path / "out", to=form)
        wanted = [
            (one.chosen, one.probabilities[one.chosen])
            for one in open_answerer(store, LETTERS, "style").predict(texts[:3])
        ]
    assert made.verified.difference <= made.verified.to_json()["limit"]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    code = card.split("## Texts")[1].split("```python\n")[1].split("```")[0]
    script = f"import sys\nsys.modules['evodevo'] = None\n{code}"
    words = [sys.executable, "-I", "-B", "-c", script, *texts]
    done = subprocess.run(words, cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [line.split()[:2] for line in done.stdout.splitlines() if line.strip()]
    assert [(name, float(value)) for name, value in found[:3]] == [
        (name, pytest.approx(value, abs=2e-4)) for name, value in wanted
    ]
    assert len(found) == len(texts)


def test_of_several_inputs_a_path_is_exported_that_reads_one(tmp_path: Path) -> None:
    answering_texts(tmp_path / "runs")
    image = InputSpec("image", "image", height=8, width=8, channels=1)
    with Store.open(tmp_path / "runs", "ro", create=False) as store:
        answerer = open_answerer(store, LETTERS, "style")
        (text,) = answerer.samples.inputs
        alone = subject_of(answerer)
        answerer.samples.inputs = (image, text)
        given = subject_of(answerer)
        probe = given.input.probe(3)
        assert given.input == alone.input
        assert np.array_equal(given.answer(probe), alone.answer(probe))
        for inputs in ((image,), (text, replace(text, name="other"))):
            answerer.samples.inputs = inputs
            with pytest.raises(UsageError, match=r"task 'style' hands out .*; exported are paths that read one image,"):
                subject_of(answerer)
        answerer.samples.inputs = (text,)
        with pytest.MonkeyPatch.context() as patch:
            odd = replace(answerer.built.model.dense_inputs()[""], name="graphs")  # type: ignore[operator]
            patch.setattr(answerer.built.model, "dense_inputs", lambda: {"": odd}, raising=False)
            with pytest.raises(UsageError, match="exported are paths that read one image, text or vector"):
                subject_of(answerer)
        answerer.samples.inputs = (replace(text, vocabulary=300),)
        with pytest.raises(UsageError, match="hands out the ids of a tokenizer of its own"):
            subject_of(answerer)


def test_a_file_answers_as_its_pixels_whatever_the_form(opened: Store, tmp_path: Path) -> None:
    (image,) = pictures(1)
    grey = Image.fromarray(image)
    forms = {
        "l.png": grey,
        "rgb.png": grey.convert("RGB"),
        "rgba.png": grey.convert("RGBA"),
        "la.png": grey.convert("LA"),
    }
    deep = Image.fromarray(image.astype(np.uint16) * 257)
    for name, form in {**forms, "deep.png": deep}.items():
        form.save(tmp_path / name)
    answerer = open_answerer(opened, NAME, SHAPES)
    given = [image, image[..., None], np.repeat(image[..., None], 3, 2), *(tmp_path / name for name in forms)]
    found = numbers(answerer.predict([*given, str(tmp_path / "deep.png"), {"image": str(tmp_path / "l.png")}]))
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), atol=1e-6)


def test_other_sizes_become_the_tasks_size_first(opened: Store) -> None:
    (image,) = pictures(1, (31, 17))
    small = np.asarray(Image.fromarray(image).resize((12, 10), Image.Resampling.BILINEAR))
    answerer = open_answerer(opened, NAME, SHAPES)
    large, resized = numbers(answerer.predict([image, small]))
    np.testing.assert_allclose(large, resized, atol=1e-6)


@pytest.mark.slow
def test_many_samples_answer_as_one_by_one(opened: Store) -> None:
    answerer = open_answerer(opened, NAME, SHAPES)
    many = pictures(70)
    together = numbers(answerer.answers(iter(many)))
    assert together.shape == (70, 3)
    np.testing.assert_allclose(together, numbers(one for image in many for one in answerer.predict([image])), atol=1e-5)
    assert answerer.predict([]) == []


def test_it_says_which_paths_were_asked_and_with_what_weight(opened: Store) -> None:
    answerer = open_answerer(opened, NAME, SHAPES)
    for answer in answerer.predict(pictures(4)):
        assert answer.paths[0].path.startswith(f"{SINGLE}/")
        assert answer.paths[0].run
        assert sum(one.weight or 0 for one in answer.paths) == pytest.approx(1, abs=1e-5)
    said = answer.to_json()
    assert said["chosen"] == answer.chosen
    assert [one["path"] for one in said["paths"]] == [one.path for one in answer.paths]


def test_supports_of_negligible_weight_are_not_run_and_count_nothing(opened: Store) -> None:
    many, bar = pictures(24), 0.3
    sparse, whole = (open_answerer(opened, NAME, SHAPES, skip_below=below) for below in (bar, 0.0))
    seen = dict.fromkeys(sparse.built.model.names, 0)

    def count(name: str) -> Any:
        return lambda module, inputs, output: seen.__setitem__(name, seen[name] + len(output))

    for name, path in sparse.built.model.paths.items():
        path.module.register_forward_hook(count(name))
    answers = sparse.predict(many)
    ran = np.asarray([[one.run for one in answer.paths] for answer in answers])
    weights = np.asarray([[one.weight for one in answer.paths] for answer in answers])
    assert ran[:, 0].all(), "the main path is always asked"
    assert ((weights[:, 1:] >= bar) == ran[:, 1:]).all()
    assert not ran.all()
    assert list(seen.values()) == ran.sum(0).tolist(), "what is skipped is not run"
    model = whole.built.model
    assert isinstance(model, Multipath)
    assert all(one.run for answer in whole.predict(many) for one in answer.paths)
    read = whole.built.reader(_task(whole, many), "test", DataValues(), 0)(np.arange(len(many)), None)
    with torch.no_grad():
        parts = model.represent_paths(read)
        logits = torch.from_numpy(weights[:, :1]) * parts["main"].double()
        for number in range(1, len(parts)):
            part = model.get_submodule(f"connector_{number}")(parts[f"support_{number}"]).double()
            logits += torch.from_numpy(weights[:, number : number + 1] * ran[:, number : number + 1]) * part
    np.testing.assert_allclose(numbers(answers), logits.softmax(1).numpy(), atol=1e-5)


def _task(answerer: PathPredictor, images: list[NDArray[np.uint8]]) -> Any:
    from evodevo.multitask.run.samples import OwnSamples

    return OwnSamples(answerer.samples.inputs, answerer.samples.read(images))


@pytest.mark.slow
def test_a_sample_of_the_task_answers_as_when_it_was_measured(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    agent = AgentSettings(classes=10, options={"hyperparameters": SIZES})
    answering_system(tmp_path / "runs", more={"digits": agent})
    with Store.open(tmp_path / "runs", "ro", create=False) as store:
        answerer = open_answerer(store, NAME, "digits", cache_folder=cache)
        assert answerer.classes == tuple("0123456789")
        assert answerer.named, "the names come with the data where nobody recorded them"
        assert store.blobs_address is not None
        asked = answerer.system.library.request(answerer.known)
        asked |= {"blobs": store.blobs_address, "cache": str(cache), "training": {"representations": False}}
        built, task, _ = open_path(validate(PathRequest, asked, what="request"))
        places = np.arange(20)
        with torch.no_grad():
            wanted = built.model.eval()(built.reader(task, "test", DataValues(), 0)(places, None)).softmax(1)
        files = []
        for place, image in enumerate(task.fetch("test", places)["image"]):
            files.append(tmp_path / f"{place}.png")
            Image.fromarray(image[..., 0]).save(files[-1])
        np.testing.assert_allclose(numbers(answerer.predict(files)), wanted.numpy(), atol=1e-6)


def test_a_damaged_or_missing_component_is_found_before_anything_is_answered(gallery: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(gallery, tmp_path / "runs"))
    with Store.open(folder, "ro", create=False) as store:
        known = chosen_path(System.open(store, NAME), COLOURS)
        blobs = store.blobs_folder
        assert blobs is not None
        blob = next(blobs.rglob(f"*{known.components[-1].digest}*"))
        good = blob.read_bytes()
        blob.chmod(0o600)
        blob.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(StoreDamagedError):
            open_answerer(store, NAME, COLOURS)
        blob.unlink()
        with pytest.raises((NotFoundError, StoreDamagedError)):
            open_answerer(store, NAME, COLOURS)


@pytest.mark.parametrize(
    ("task", "agent", "error", "said"),
    [
        (None, None, UsageError, "colours, shapes"),
        ("shape", None, NotFoundError, "colours, shapes"),
        (SHAPES, f"VitTiny~{COLOURS}", NotFoundError, MULTI),
        (SHAPES, "nobody", NotFoundError, SINGLE),
    ],
)
def test_what_there_is_not_is_answered_by_what_there_is(
    opened: Store, task: str | None, agent: str | None, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        open_answerer(opened, NAME, task, agent)


def test_a_task_without_a_path_says_what_comes_next(gallery: Path, tmp_path: Path) -> None:
    with Store.open(shutil.copytree(gallery, tmp_path / "runs")) as store:
        system = System.open(store, NAME)
        system.add_agent("VitTiny", "waiting", AgentSettings(classes=2))
        with pytest.raises(NotFoundError, match=f"evodevo extend run {NAME}"):
            open_answerer(store, NAME, "waiting")
        system.withdraw(f"VitTiny~{COLOURS}")
        with pytest.raises(NotFoundError, match="answers no task"):
            open_answerer(store, NAME, COLOURS)


def test_a_word_means_a_system_or_it_does_not(opened: Store) -> None:
    row = opened.systems.find_system(NAME)
    for word in (NAME, NAME[:3], row.id, row.id[:8]):
        assert find_system(opened, word) == row
    agent = System.open(opened, NAME).agents()[0]
    for word in ("", "last", "nothing", agent.id):
        assert find_system(opened, word) is None


@pytest.mark.parametrize(
    ("sample", "error", "said"),
    [
        (np.zeros((4, 4), np.float32), UsageError, "uint8"),
        (np.zeros((4, 4, 2), np.uint8), UsageError, "height, width"),
        (np.zeros((0, 4), np.uint8), UsageError, "height, width"),
        ("nowhere.png", DataError, r"nowhere\.png"),
        ({"picture": "a.png"}, UsageError, "picture"),
        ({"image": " "}, UsageError, "image"),
    ],
)
def test_what_is_no_sample_is_refused(opened: Store, sample: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        open_answerer(opened, NAME, SHAPES).predict([sample])


def test_rows_come_from_a_folder_or_a_table(opened: Store, tmp_path: Path) -> None:
    reader = open_answerer(opened, NAME, SHAPES).samples
    (tmp_path / "in").mkdir()
    for place, image in enumerate(pictures(3)):
        Image.fromarray(image).save(tmp_path / ("in" if place else ".") / f"{place}.png")
    (tmp_path / "words.txt").write_text("no image")
    assert [name for name, _ in reader.rows(tmp_path)] == ["0.png", "in/1.png", "in/2.png"]
    table = tmp_path / "rows.csv"
    table.write_text(f"number,path\n1,in/1.png\n0,{tmp_path}/0.png\n")
    assert [name for name, _ in reader.rows(table)] == ["1", "2"]
    assert reader.read([one for _, one in reader.rows(table)])["image"].shape == (2, 10, 12, 1)
    table.write_text("number,picture\n1,in/1.png\n")
    with pytest.raises(UsageError, match=r"number, picture.*image, image_path"):
        list(reader.rows(table))
    table.write_bytes(b"path\n\xff\xfe\n")
    with pytest.raises(DataError, match="UTF-8"):
        list(reader.rows(table))
    (tmp_path / "empty").mkdir()
    for place, error in (("empty", DataError), ("gone", NotFoundError), ("words.txt", UsageError)):
        with pytest.raises(error):
            list(reader.rows(tmp_path / place))
