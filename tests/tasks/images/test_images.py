"""The task of images: the laws of every task of samples, domains, files, cache, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evodevo.errors import DataError, UsageError
from evodevo.settings import validate
from evodevo.tasks.base import NO_TARGET, SPLITS
from evodevo.tasks.images import files as image_files
from evodevo.tasks.images.drawn_images import BUILTINS
from evodevo.tasks.images.images import ImagesSettings, ImagesTask
from evodevo.tasks.images.preparation import Domain
from evodevo.testing.tasks import SampleTaskTests

DATA = Path(__file__).parents[4] / "shared" / "data"
DRAWN = tuple(Domain(name=name, builtin=name, limit=300) for name in BUILTINS)


class TestImages(SampleTaskTests):
    task_class = ImagesTask
    settings = ImagesSettings()
    decisive = (
        ImagesSettings(size=(6, 6)),
        ImagesSettings(colour="rgb"),
        ImagesSettings(held_out=0.2),
        ImagesSettings(architecture=0.2),
        ImagesSettings(domains=(DRAWN[0],)),
    )


class TestDomains(SampleTaskTests):
    """And four splits."""

    test_another_process_reads_the_same = None  # as above
    task_class = ImagesTask
    settings = ImagesSettings(domains=DRAWN[:2], size=(12, 12), architecture=0.1)
    decisive = (
        settings.model_copy(update={"answers": "joint"}),
        settings.model_copy(update={"active": ("letters",)}),
        settings.model_copy(update={"domains": DRAWN[:1]}),
    )


def _folder(root: Path, labels: str = "abc", each: int = 12, side: int = 5) -> Path:
    rng = np.random.default_rng(len(labels) * each)
    for label in labels:
        (root / label).mkdir(parents=True)
        for number in range(each):
            pixels = rng.integers(0, 256, (side, side)).astype(np.uint8)
            Image.fromarray(pixels).save(root / label / f"{number}.png")
    return root


def _open(tmp_path: Path, **settings: Any) -> ImagesTask:
    return ImagesTask.open(ImagesSettings(**settings), tmp_path / "cache")


def test_the_fourth_split_is_a_part_of_training(tmp_path: Path) -> None:
    three, four = _open(tmp_path), _open(tmp_path, architecture=0.1)
    for split in ("validation", "test"):
        places = np.arange(three.count(split))
        np.testing.assert_array_equal(three.fetch(split, places)["image"], four.fetch(split, places)["image"])
    assert four.count("train") + four.count("architecture") == three.count("train")
    assert abs(four.count("architecture") / three.count("train") - 0.1) < 0.01
    classes = four.fetch("architecture", np.arange(four.count("architecture")))["class/target"]
    assert np.bincount(classes).min() > 0.08 * three.count("train") / 10


def test_digits_are_scikit_learns(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    task = _open(tmp_path)
    found = load_digits()
    assert sum(task.count(split) for split in SPLITS) == len(found.images)
    known = {
        np.rint(image * 255 / 16).astype(np.uint8).tobytes(): label
        for image, label in zip(found.images, found.target, strict=True)
    }
    for split in SPLITS:
        batch = task.fetch(split, np.arange(task.count(split)))
        names = [known[image.tobytes()] for image in batch["image"][..., 0]]
        assert [int(task.outputs[0].names[target]) for target in batch["class/target"]] == names
    baselines = task.baselines("test")
    assert baselines["majority"] < 0.2
    assert baselines["logistic regression"] > 0.9


def test_joint_and_shared_answers_agree_with_separate_ones(tmp_path: Path) -> None:
    domains = tuple(
        Domain(name=name, data=str(_folder(tmp_path / name, labels)))
        for name, labels in (("one", "abc"), ("two", "bcde"))
    )
    apart, joint, shared = (_open(tmp_path, domains=domains, answers=how) for how in ("each", "joint", "shared"))
    assert joint.outputs[0].names == ("one/a", "one/b", "one/c", "two/b", "two/c", "two/d", "two/e")
    assert shared.outputs[0].names == ("a", "b", "c", "d", "e")
    for place in range(apart.count("train")):
        words = apart.show("train", place)
        domain = "one" if words["two"] == "(none)" else "two"
        assert joint.show("train", place)["class"] == f"{domain}/{words[domain]}"
        assert shared.show("train", place)["class"] == words[domain]


@pytest.mark.slow
def test_each_domain_answers_with_its_own_output_and_active_ones_narrow_the_samples(tmp_path: Path) -> None:
    whole = _open(tmp_path, domains=DRAWN, size=(12, 12))
    assert [output.name for output in whole.outputs] == list(BUILTINS)
    places = np.arange(whole.count("train"))
    batch, domain = whole.fetch("train", places), whole.groups("train", places)["domain"]
    for number, output in enumerate(whole.outputs):
        np.testing.assert_array_equal(batch[f"{output.name}/target"] != NO_TARGET, domain == number)
    some = _open(tmp_path, domains=DRAWN, size=(12, 12), active=("shapes", "digits"))
    assert some.outputs == whole.outputs
    assert some.key == whole.key, "prepared once for both"
    assert some.digest != whole.digest
    groups = some.groups("test", np.arange(some.count("test")))["domain"]
    assert set(groups.tolist()) == {0, 2}
    one = _open(tmp_path, domains=(Domain(name="one", builtin="digits", limit=200),))
    assert sum(one.count(split) for split in SPLITS) == 200, "the limit takes some of each file"
    with pytest.raises(UsageError, match="Did you mean 'shapes'"):
        _open(tmp_path, domains=DRAWN, size=(12, 12), active=("shape",))


def test_copies_never_stand_in_two_splits_even_in_two_domains_and_a_given_test_split_is_kept(tmp_path: Path) -> None:
    first = _folder(tmp_path / "one", each=40)
    for label in "abc":
        (tmp_path / "two" / label).mkdir(parents=True)
        for path in (first / label).iterdir():
            (tmp_path / "two" / label / f"copy of {path.name}").write_bytes(path.read_bytes())
    task = _open(tmp_path, domains=tuple(Domain(name=name, data=str(tmp_path / name)) for name in ("one", "two")))
    seen = [{image.tobytes() for image in task.fetch(s, np.arange(task.count(s)))["image"]} for s in SPLITS]
    assert sum(map(len, seen)) == 120
    assert task.describe()["repeated"] == 120
    held = _folder(tmp_path / "held", each=5)
    (first / "a" / "copy.png").write_bytes((held / "a" / "0.png").read_bytes())
    task = _open(tmp_path, data=str(first), test=str(held))
    assert task.count("test") == 15
    assert task.describe()["dropped_as_held_out"] == 1
    assert task.count("train") + task.count("validation") == 120


def test_prepared_images_are_found_by_key_without_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _folder(tmp_path / "images")
    task = _open(tmp_path, data=str(folder))
    monkeypatch.setattr(image_files, "read", lambda *_: pytest.fail("decoded again"))
    assert _open(tmp_path, data=str(folder)).key == task.key
    (folder / "a").rename(folder / "z")
    again = ImagesTask.open(task.settings, tmp_path / "cache", task.key)
    np.testing.assert_array_equal(again.fetch("test", np.arange(1))["image"], task.fetch("test", np.arange(1))["image"])
    with pytest.raises(DataError, match="is not what it was"):
        ImagesTask.open(task.settings, tmp_path / "elsewhere", task.key)


def test_images_of_several_sizes_become_one_size_whichever_comes_first(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "images")
    assert "uneven" not in _open(tmp_path, data=str(folder)).describe()
    Image.new("RGB", (9, 3), "red").save(folder / "a" / "zz_wide.png")
    last = _open(tmp_path, data=str(folder))
    assert (last.inputs[0].height, last.inputs[0].width, last.describe()["uneven"]) == (64, 64, True)
    (folder / "a" / "zz_wide.png").rename(folder / "a" / "00_wide.png")
    first = _open(tmp_path, data=str(folder))
    both = [
        sorted(
            image.tobytes() for split in SPLITS for image in task.fetch(split, np.arange(task.count(split)))["image"]
        )
        for task in (last, first)
    ]
    assert both[0] == both[1]
    given = _open(tmp_path, data=str(folder), size=(4, 6))
    assert (given.inputs[0].height, "uneven" in given.describe()) == (4, False)


def test_splits_of_different_sizes_become_one_size(tmp_path: Path) -> None:
    for split, side in (("train", 5), ("test", 7)):
        _folder(tmp_path / "images" / split)
        for file in (tmp_path / "images" / split).rglob("*.png"):
            Image.open(file).resize((side, side)).save(file)
    task = _open(tmp_path, data=str(tmp_path / "images"))
    assert (task.inputs[0].height, task.inputs[0].width, task.describe()["uneven"]) == (64, 64, True)


def test_corrupt_images_are_counted(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "images")
    Image.new("RGB", (9, 3)).save(folder / "a" / "wide.png")
    (folder / "b" / "broken.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"broken\.png"):
        _open(tmp_path, data=str(folder))
    task = _open(tmp_path, data=str(folder), size=(4, 6), skip_corrupt=True)
    spec, about = task.inputs[0], task.describe()
    assert (spec.height, spec.width, spec.channels) == (4, 6, 3)
    assert about["skipped"] == 1
    assert about["skipped_names"][0].endswith("broken.png")


def test_one_class_and_unseen_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only the class 'a'"):
        _open(tmp_path, data=str(_folder(tmp_path / "one", "a")))
    with pytest.raises(DataError, match=r"1 of the classes \('c'\) are in the test split \(12 images\)"):
        _open(tmp_path, data=str(_folder(tmp_path / "train", "ab")), test=str(_folder(tmp_path / "test", "abc")))


def test_settings_that_cannot_be_meant() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"data": "x", "domains": [{"name": "a", "data": "y"}]}, "not both"),
        ({"domains": [{"name": "a", "data": "y"}, {"name": "a", "data": "z"}]}, "different names"),
        ({"domains": [{"name": "a"}]}, "either data or builtin"),
        ({"domains": [{"name": "A", "data": "x"}]}, "pattern"),
        ({"size": [0, 3]}, "from 1 to 4096"),
        ({"colours": "rgb"}, "did you mean 'colour'"),
    )
    for values, message in cases:
        with pytest.raises(UsageError, match=message):
            validate(ImagesSettings, values, what="settings")


@pytest.mark.parametrize(
    ("name", "train", "test", "shape", "classes"),
    [
        ("mnist10k", 8_000, 2_000, (28, 28, 1), 10),
        ("omniglot_small1", 2_040, 680, (28, 28, 1), 136),
        pytest.param("fashion_mnist", 25_000, 5_000, (28, 28, 1), 10, marks=pytest.mark.slow),
        pytest.param("cifar10_jpg", 20_000, 4_000, (32, 32, 3), 10, marks=pytest.mark.slow),
    ],
)
def test_real_images(tmp_path: Path, name: str, train: int, test: int, shape: tuple[int, ...], classes: int) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs the data set {name}")
    task = _open(tmp_path, data=str(DATA / name))
    assert task.count("train") + task.count("validation") == train
    assert task.count("test") == test
    assert task.fetch("train", np.arange(2))["image"].shape == (2, *shape)
    assert task.outputs[0].size == classes
    if name == "mnist10k":
        assert task.baselines("test")["logistic regression"] > 0.85
