"""The task of images and text: the laws, what each side alone can tell, rules that decide, missing inputs, files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from evodevo.errors import DataError, UnsafeFileError, UsageError
from evodevo.settings import validate
from evodevo.tasks import sample_baselines
from evodevo.tasks.base import NO_TARGET, SPLITS
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.image_text import files as image_text_files
from evodevo.tasks.image_text import scenes
from evodevo.tasks.image_text.samples import Form
from evodevo.tasks.image_text.scene_samples import SceneSettings
from evodevo.tasks.image_text.scene_text import MEANINGS
from evodevo.tasks.image_text.task import ImageTextSettings, ImageTextTask
from evodevo.testing.tasks import SampleTaskTests

DATA = Path(__file__).parents[4] / "shared" / "data"
FEW = SceneSettings(samples=SplitSizes(train=300, validation=50, test=60))


def _few(**changes: Any) -> SceneSettings:
    return FEW.model_copy(update=changes)


class TestImageText(SampleTaskTests):
    task_class = ImageTextTask
    settings = ImageTextSettings(form="both", scenes=FEW, missing={"image": 0.2, "text": 0.1})
    decisive = (
        *(ImageTextSettings(form=form, scenes=FEW) for form in ("match", "labels", "multilabel", "caption_match")),
        ImageTextSettings(form="both", scenes=_few(image_hints=0.1)),
        ImageTextSettings(scenes=_few(seed=1)),
        ImageTextSettings(scenes=_few(side=32)),
        ImageTextSettings(scenes=FEW, missing={"image": 0.3}),
    )
    # No file is read.
    indifferent = (settings.model_copy(update={"vocabulary": 99}),)


def test_what_a_match_does_not_use_changes_nothing(tmp_path: Path) -> None:
    """It has no genres to be hinted at, and nothing goes missing."""
    whole = _open(tmp_path, scenes=FEW)
    assert _open(tmp_path, scenes=_few(text_hints=0.1)).digest == whole.digest
    assert _open(tmp_path, scenes=FEW, missing={"text": 0.0}).digest == whole.digest


def _open(tmp_path: Path, **settings: Any) -> ImageTextTask:
    return ImageTextTask.open(ImageTextSettings(**settings), tmp_path / "cache")


def _all(task: ImageTextTask, split: Any = "train") -> dict[str, Any]:
    return dict(task.fetch(split, np.arange(task.count(split))))


def _stated(text: str) -> dict[str, str]:
    """What a caption says, word by word; the plot after the full stop says nothing of the scene."""
    return dict(MEANINGS[word] for word in text.partition(" . ")[0].split() if word in MEANINGS)


@pytest.mark.parametrize("form", ["match", "both"])
def test_a_rule_decides_every_match(tmp_path: Path, form: Form) -> None:
    task = _open(tmp_path, form=form, scenes=FEW)
    for split in SPLITS:
        batch, groups = _all(task, split), task.groups(split, np.arange(task.count(split)))
        for row in range(task.count(split)):
            said = _stated(task.vocabulary.decode(batch["text"][row]))
            shown = {name: values[groups[name][row]] for name, values in scenes.VALUES.items()}
            differences = sum(said[name] != shown[name] for name in scenes.VALUES)
            assert differences == 1 - batch["match/target"][row] == 1 - groups["match"][row]


def test_a_rule_decides_every_match_of_captions(tmp_path: Path) -> None:
    task = _open(tmp_path, form="caption_match", scenes=FEW)
    batch = _all(task)
    for row in range(task.count("train")):
        first, second = (_stated(task.vocabulary.decode(batch[name][row])) for name in ("first", "second"))
        assert (first == second) == bool(batch["match/target"][row])
    assert "image" not in batch


def test_pictures_show_what_the_groups_say(tmp_path: Path) -> None:
    task = _open(tmp_path, form="match", scenes=FEW)
    batch, groups = _all(task), task.groups("train", np.arange(task.count("train")))
    colours = np.asarray(scenes._COLOURS, dtype=float)
    for picture, colour, count, size in zip(
        batch["image"].astype(float), groups["colour"], groups["count"], groups["size"], strict=True
    ):
        inside = np.abs(picture - 232).max(axis=2) > 60
        regions, found = ndimage.label(inside)
        assert found == count + 1
        # Hue, not brightness: the shade of the shapes is drawn.
        mean = picture[inside].mean(axis=0)
        hues = colours / np.linalg.norm(colours, axis=1, keepdims=True)
        assert (hues @ mean).argmax() == colour
        extents = [max(axis.stop - axis.start for axis in place) for place in ndimage.find_objects(regions)]
        assert all((extent > 7) == bool(size) for extent in extents), extents


def test_questions_are_answered_by_the_scene(tmp_path: Path) -> None:
    task = _open(tmp_path, form="labels", scenes=FEW)
    batch, groups = _all(task), task.groups("train", np.arange(task.count("train")))
    names = list(scenes.VALUES)
    for row in range(task.count("train")):
        asked = names[groups["question"][row]]
        answer = task.outputs[0].names[batch["answer/target"][row]]
        assert answer == scenes.VALUES[asked][groups[asked][row]]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["match", "caption_match", "both"])
def test_one_side_alone_says_nothing_about_a_match(tmp_path: Path, form: Form) -> None:
    sizes = SplitSizes(train=2_000, validation=10, test=3_000)
    task = _open(tmp_path, form=form, scenes=SceneSettings(samples=sizes))
    answers = {split: _all(task, split)["match/target"] for split in ("train", "test")}
    for spec in task.inputs:
        shown = {split: task._features(split, spec.name) for split in ("train", "test")}
        found = sample_baselines.logistic(shown["train"], answers["train"], shown["test"], answers["test"])
        assert abs(found - 0.5) < 0.03, spec.name


@pytest.mark.slow
def test_both_sides_tell_of_genres_and_together_tell_more(tmp_path: Path) -> None:
    sizes = SplitSizes(train=1_500, validation=50, test=1_000)
    found = _open(tmp_path, form="multilabel", scenes=SceneSettings(samples=sizes)).baselines("test")
    one = [found[f"logistic regression on {name}"] for name in ("image", "text")]
    assert min(one) > found["majority"] + 0.2, found
    assert found["logistic regression on image and text"] > max(one) + 0.02, found


def test_held_out_samples_do_not_depend_on_the_size_of_training(tmp_path: Path) -> None:
    more = _few(samples=SplitSizes(train=400, validation=50, test=60))
    few, many = (_all(_open(tmp_path, scenes=scenes), "test") for scenes in (FEW, more))
    for name, array in few.items():
        np.testing.assert_array_equal(array, many[name])


def test_missing_inputs_are_marked_in_training_only(tmp_path: Path) -> None:
    whole = _open(tmp_path, form="both", scenes=FEW)
    task = _open(tmp_path, form="both", scenes=FEW, missing={"image": 0.5, "text": 0.5})
    batch, before = _all(task), _all(whole)
    image, text = batch["image/present"], batch["text/present"]
    assert (image ^ text).all(), "all shares are used, and nobody lacks both"
    assert 100 < image.sum() < 200
    assert not batch["image"][~image].any()
    assert not batch["text/mask"][~text].any()
    np.testing.assert_array_equal(batch["image"][image], before["image"][image])
    np.testing.assert_array_equal(batch["text"][text], before["text"][text])
    np.testing.assert_array_equal(batch["genres/target"], before["genres/target"])
    assert (batch["match/target"] == NO_TARGET).all()
    for split in ("validation", "test"):
        assert _all(task, split).keys() == _all(whole, split).keys()
        assert "image/present" not in _all(task, split)
    assert task.describe()["missing"]["train"]["image"] == int((~image).sum())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"missing": {"first": 0.1}}, "the inputs of 'match' are image, text"),
        ({"missing": {"image": 0.6, "text": 0.5}}, "more than 1"),
        ({"missing": {"image": -0.1}}, "from 0 to 1"),
        ({"images": "folder"}, "belong to data"),
        ({"form": "matching"}, "'match'"),
    ],
)
def test_settings_that_cannot_be_meant(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate(ImageTextSettings, values, what="settings")


# Files


def _table(root: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> str:
    root.mkdir(exist_ok=True)
    if name.endswith(".csv"):
        with (root / name).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        (root / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(root / name)


def _rows(root: Path, count: int = 40, first: int = 0) -> list[dict[str, Any]]:
    root.mkdir(exist_ok=True)
    rng = np.random.default_rng(first)
    found = []
    for number in range(first, first + count):
        Image.fromarray(rng.integers(0, 256, (4, 4, 3)).astype(np.uint8)).save(root / f"{number}.png")
        label, match = "ab"[number % 2], ("yes", "no")[number // 2 % 2]
        found.append({"image": f"{number}.png", "text": f"Text {number}, {label}!", "label": label, "match": match})
    return found


def test_rows_of_a_file_become_samples(tmp_path: Path) -> None:
    rows = _rows(tmp_path)
    task = _open(tmp_path, form="labels", data=_table(tmp_path, rows, "rows.csv"))
    wanted = {row["text"].lower().replace(",", " ,").replace("!", " !"): row for row in rows}
    found = 0
    for split in SPLITS:
        batch = _all(task, split)
        for place in range(task.count(split)):
            shown = task.show(split, place)
            # Words of held-out texts may be unknown; their images are not.
            if "<unknown>" not in shown["text"]:
                row = wanted[shown["text"]]
                assert shown["label"] == row["label"]
                np.testing.assert_array_equal(batch["image"][place], np.asarray(Image.open(tmp_path / row["image"])))
                found += 1
    assert sum(task.count(split) for split in SPLITS) == 40
    assert found >= 30


def test_labels_come_as_a_list_or_with_separators(tmp_path: Path) -> None:
    rows = _rows(tmp_path)
    lists = [row | {"label": ["x", row["label"]] if number % 3 else []} for number, row in enumerate(rows)]
    joined = [row | {"label": " | ".join(row["label"])} for row in lists]
    one = _open(tmp_path, form="both", data=_table(tmp_path, lists))
    two = _open(tmp_path, form="both", data=_table(tmp_path, joined, "rows.csv"))
    assert [output.name for output in one.outputs] == ["labels", "match"]
    assert one.outputs[0].names == ("a", "b", "x")
    for split in SPLITS:
        for name, array in _all(one, split).items():
            np.testing.assert_array_equal(array, _all(two, split)[name])


def test_all_rows_about_one_image_go_together_and_a_row_may_lack_its_image_or_its_text(tmp_path: Path) -> None:
    rows = _rows(tmp_path, 30)
    asked = [row | {"text": f"{word} {row['text']}"} for row in rows for word in ("one", "two", "three")]
    task = _open(tmp_path, form="labels", data=_table(tmp_path, asked))
    seen = [{image.tobytes() for image in _all(task, split)["image"]} for split in SPLITS]
    assert sum(map(len, seen)) == 30
    assert "of the image" in task.describe()["split_rule"]
    rows = _rows(tmp_path)
    for row in rows[::4]:
        row["image"] = ""
    for row in rows[1::4]:
        row["text"] = ""
    rows[0]["text"] = ""
    task = _open(tmp_path, form="match", data=_table(tmp_path, rows))
    batch = _all(task)
    both = batch["image/present"] & batch["text/present"]
    assert task.describe()["skipped"] == 1, "a row without both shows nothing"
    assert 0 < both.sum() < len(both)
    np.testing.assert_array_equal(batch["match/target"] != NO_TARGET, both)


def test_prepared_rows_are_found_by_key_without_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _table(tmp_path, _rows(tmp_path))
    task = _open(tmp_path, form="labels", data=path)
    with monkeypatch.context() as patch:
        patch.setattr(image_text_files, "prepare", lambda *_: pytest.fail("prepared again"))
        assert _open(tmp_path, form="labels", data=path).key == task.key
        Path(path).rename(tmp_path / "elsewhere.jsonl")
        assert ImageTextTask.open(task.settings, tmp_path / "cache", task.key).digest == task.digest
    (tmp_path / "elsewhere.jsonl").rename(path)
    Image.new("RGB", (4, 4)).save(tmp_path / "3.png")
    assert _open(tmp_path, form="labels", data=path).digest != task.digest, "a changed image is another task"


def test_corrupt_images_are_named_or_skipped(tmp_path: Path) -> None:
    path = _table(tmp_path, _rows(tmp_path))
    (tmp_path / "5.png").write_bytes(b"no image")
    (tmp_path / "6.png").unlink()
    with pytest.raises(DataError, match=r"5\.png"):
        _open(tmp_path, form="labels", data=path)
    about = _open(tmp_path, form="labels", data=path, skip_corrupt=True).describe()
    assert (about["skipped"], about["skipped_names"]) == (2, ["5.png", "6.png"])


def test_paths_stay_in_their_folder_and_columns_and_answers_are_there(tmp_path: Path) -> None:
    rows = _rows(tmp_path / "images")
    path = _table(tmp_path / "tables", rows)
    assert _open(tmp_path, form="labels", data=path, images=str(tmp_path / "images")).count("train")
    for name in ("../secret.png", "/etc/passwd"):
        with pytest.raises(UnsafeFileError, match="outside"):
            _open(tmp_path, form="labels", data=_table(tmp_path / "images", [{**rows[0], "image": name}, *rows[1:]]))
    with pytest.raises(DataError, match="Did you mean 'label'"):
        _open(tmp_path, form="labels", data=path, label_column="labels")
    train, test = (
        _table(tmp_path / "images", given, name)
        for given, name in ((rows, "train.jsonl"), ([{**rows[0], "label": "new"}], "test.jsonl"))
    )
    with pytest.raises(DataError, match=r"\('new'\) are in no training sample"):
        _open(tmp_path, form="labels", data=train, test=test)
    task = _open(tmp_path, form="labels", data=train, length=2)
    assert task.inputs[1].length == 2
    assert task.describe()["truncated"] == 40, "long texts are cut and counted"


def test_answers_that_teach_nothing(tmp_path: Path) -> None:
    cases: tuple[tuple[Form, dict[str, str], str], ...] = (
        ("labels", {"label": "same"}, "all the same"),
        ("match", {"match": "perhaps"}, "holds 'perhaps'; allowed are"),
        ("match", {"match": "yes"}, "all the same"),
        ("multilabel", {"label": ""}, "all the same"),
    )
    for form, change, message in cases:
        with pytest.raises(DataError, match=message):
            _open(tmp_path, form=form, data=_table(tmp_path, [row | change for row in _rows(tmp_path)]))


@pytest.mark.slow
def test_questions_about_real_files(tmp_path: Path) -> None:
    folder = DATA / "easy_vqa"
    if not folder.is_dir():
        pytest.skip("needs the data set easy_vqa")
    files = {
        "data": "train.jsonl.gz",
        "test": "test.jsonl.gz",
        "images": "train_images.npz",
        "test_images": "test_images.npz",
    }
    paths = {name: str(folder / file) for name, file in files.items()}
    task = _open(tmp_path, form="labels", **paths, text_column="question", label_column="answer", size=(16, 16))
    assert task.count("train") + task.count("validation") == 38_575
    assert task.count("test") == 9_673
    assert task.outputs[0].names == tuple(sorted(json.loads((folder / "answers.json").read_text())))


@pytest.mark.slow
def test_sentences_about_real_pictures_with_a_palette(tmp_path: Path) -> None:
    folder = DATA / "nlvr"
    if not folder.is_dir():
        pytest.skip("needs the data set nlvr")
    columns = {"image_column": "example", "text_column": "sentence", "match_column": "label"}
    path = str(folder / "dev.jsonl.gz")
    task = _open(tmp_path, data=path, images=str(folder / "dev_images.npz"), **columns)
    assert sum(task.count(split) for split in SPLITS) == 989
    arrays = np.load(folder / "dev_images.npz")
    first = arrays["palette"][arrays["x"][arrays["perm"] == 0]]
    known = {picture.tobytes() for picture in first}
    assert all(picture.tobytes() in known for picture in _all(task, "test")["image"])
