"""Questions about digits: the laws, what each side alone can tell, what both together decide, one's own samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.ensemble import RandomForestClassifier

from evodevo.errors import DataError, UsageError
from evodevo.settings import validate
from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.images.digit_questions import ANSWERS, DIGITS, QUESTIONS, frequencies, wordings, wordings_of_sum
from evodevo.tasks.images.digits_questions import DigitsQuestionsSettings, DigitsQuestionsTask, Form
from evodevo.tasks.table.group_splits import Shares
from evodevo.tasks.text.words import UNKNOWN
from evodevo.testing.tasks import SampleTaskTests

FORMS: tuple[Form, ...] = ("mixed", "answer", "sums", "match")


class TestDigitsQuestions(SampleTaskTests):
    task_class = DigitsQuestionsTask
    settings = DigitsQuestionsSettings(questions=4)
    decisive = (
        DigitsQuestionsSettings(questions=4, seed=1),
        DigitsQuestionsSettings(questions=8),
        DigitsQuestionsSettings(questions=4, form="answer"),
        DigitsQuestionsSettings(questions=4, form="sums"),
        DigitsQuestionsSettings(questions=4, form="match"),
        DigitsQuestionsSettings(questions=4, shares=Shares(architecture=0.3)),
    )


@pytest.fixture(scope="module")
def tasks() -> dict[Form, DigitsQuestionsTask]:
    return {form: DigitsQuestionsTask.open(DigitsQuestionsSettings(form=form)) for form in FORMS}


def _everything(task: DigitsQuestionsTask, split: Split) -> tuple[dict[str, Any], dict[str, Any]]:
    places = np.arange(task.count(split))
    return dict(task.fetch(split, places)), task.groups(split, places)


@pytest.mark.parametrize("form", FORMS)
def test_digit_and_question_decide_the_answer(tasks: dict[Form, DigitsQuestionsTask], form: Form) -> None:
    task = tasks[form]
    for split in ALL_SPLITS:
        _, groups = _everything(task, split)
        for place in range(0, task.count(split), 7):
            digit, question = int(groups["digit"][place]), int(groups["question"][place])
            if question < len(QUESTIONS):
                answer = ANSWERS[digit in QUESTIONS[question].yes]
            else:
                answer = DIGITS[(digit + question - len(QUESTIONS)) % 10]
            assert task.show(split, place)[task.outputs[0].name] == answer


@pytest.mark.parametrize("form", ["answer", "match"])
def test_both_answers_are_equally_frequent_for_every_digit_and_question(
    tasks: dict[Form, DigitsQuestionsTask], form: Form
) -> None:
    task = tasks[form]
    for split in ALL_SPLITS:
        batch, groups = _everything(task, split)
        target = batch[f"{task.outputs[0].name}/target"]
        for name, allowed in (("digit", 0.0), ("question", 0.01 if split == "train" else 0.08)):
            shares = [target[groups[name] == value].mean() for value in np.unique(groups[name])]
            assert max(abs(share - 0.5) for share in shares) <= allowed, (split, name)
        assert len(np.unique(groups["question"])) == len(QUESTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["answer", "match"])
def test_no_side_alone_says_anything(tasks: dict[Form, DigitsQuestionsTask], form: Form) -> None:
    task = tasks[form]
    key = f"{task.outputs[0].name}/target"
    train, test = _everything(task, "train")[0], _everything(task, "test")[0]
    for name in ("image", "text"):
        # More than a linear opponent: it knows every digit, and every text.
        forest = RandomForestClassifier(50, min_samples_leaf=20, random_state=0, n_jobs=1)
        forest.fit(task._features(train, name)[::2], train[key][::2])
        assert abs(forest.score(task._features(test, name), test[key]) - 0.5) < 0.05, name
    assert all(abs(value - 0.5) < 0.05 for value in task.baselines("test").values())


@pytest.mark.slow
def test_of_mixed_questions_a_quarter_asks_for_the_digit_and_no_side_suffices(
    tasks: dict[Form, DigitsQuestionsTask],
) -> None:
    task = tasks["mixed"]
    train, groups = _everything(task, "train")
    test = _everything(task, "test")[0]
    assert np.mean(groups["question"] == len(QUESTIONS)) == 0.25
    others = train["answer/target"][groups["question"] < len(QUESTIONS)]
    assert np.mean(others == 1) == 0.5
    # The best that an image alone allows is one answer for all questions, a text alone half of yes and no.
    most = {"image": 0.375, "text": 0.375 + 0.25 / 10}
    for name, bound in most.items():
        forest = RandomForestClassifier(50, min_samples_leaf=20, random_state=0, n_jobs=1)
        forest.fit(task._features(train, name)[::2], train["answer/target"][::2])
        assert forest.score(task._features(test, name), test["answer/target"]) < bound + 0.05, name
    # A linear model of both names the digit, and guesses at yes and no.
    assert max(task.baselines("test").values()) < 0.25 + 0.375 + 0.05
    sums = tasks["sums"].baselines("test")
    # A text tells whether a digit or yes or no is asked for.
    assert sums["logistic regression on image"] < 0.3
    assert sums["logistic regression on text"] < 0.35


def test_images_stand_in_one_split(tasks: dict[Form, DigitsQuestionsTask]) -> None:
    task = tasks["answer"]
    owner: dict[bytes, Split] = {}
    for split in ALL_SPLITS:
        batch, groups = _everything(task, split)
        for image in batch["image"]:
            assert owner.setdefault(image.tobytes(), split) == split
        # Every digit in about its share.
        assert np.bincount(groups["digit"]).min() > 0.8 * task.count(split) / 10
    assert len(owner) == 1797
    assert abs(task.count("train") / sum(map(task.count, ALL_SPLITS)) - 0.7) < 0.01


def test_unseen_wordings_stand_in_the_test_split_alone_and_have_no_new_word(
    tasks: dict[Form, DigitsQuestionsTask],
) -> None:
    for task in tasks.values():
        texts = {split: set(task._asked[split].text) for split in ALL_SPLITS}
        unseen = _everything(task, "test")[1]["phrasing"] == 1
        assert abs(unseen.mean() - 0.25) < 0.01
        for place in np.flatnonzero(unseen):
            assert task._asked["test"].text[place] not in texts["train"] | texts["validation"] | texts["architecture"]
        for split in ALL_SPLITS:
            assert not (_everything(task, split)[0]["text"] == UNKNOWN).any()
            assert split == "test" or not _everything(task, split)[1]["phrasing"].any()


def test_every_wording_says_which_question_it_is_and_frequencies_are_even_for_uneven_digits() -> None:
    for mood in ("question", "statement"):
        said = [way for one in QUESTIONS for ways in [wordings(one, mood)] for way in ways.seen + ways.unseen]
        assert len(set(said)) == len(said)
    sums = [way for added in range(10) for way in wordings_of_sum(added).seen + wordings_of_sum(added).unseen]
    assert len(set(sums)) == len(sums)
    images = np.asarray([8, 20, 12, 15, 9, 17, 14, 12, 16, 11])
    share = frequencies(images)
    np.testing.assert_allclose(share.sum(axis=0)[:, 1], images / images.sum() / 2)
    by_question = share.sum(axis=1)
    np.testing.assert_allclose(by_question[:, 0], by_question[:, 1], rtol=1e-6)


@pytest.mark.slow
def test_hardly_any_images_are_enough_for_a_split_and_one_can_be_left_out() -> None:
    shares = Shares(train=0.99, architecture=0.002, validation=0.002, test=0.006)
    task = DigitsQuestionsTask.open(DigitsQuestionsSettings(questions=4, form="answer", shares=shares))
    for split in ALL_SPLITS:
        batch, _ = _everything(task, split)
        assert batch["answer/target"].mean() == 0.5

    task = DigitsQuestionsTask.open(DigitsQuestionsSettings(questions=4, shares=Shares(architecture=0)))
    assert task.splits == ("train", "validation", "test")
    with pytest.raises(UsageError, match="questions"):
        validate(DigitsQuestionsSettings, {"questions": 6}, what="settings")


def test_a_sample_of_ones_own_reads_as_it_would_in_a_split(
    tasks: dict[Form, DigitsQuestionsTask], tmp_path: Path
) -> None:
    task = tasks["answer"]
    batch = task.fetch("test", np.asarray([5]))
    Image.fromarray(batch["image"][0, :, :, 0]).save(tmp_path / "a.png")
    mine = task.read_sample({"image": str(tmp_path / "a.png"), "text": task.show("test", 5)["text"]})
    for name in ("image", "text", "text/mask"):
        np.testing.assert_array_equal(mine[name], batch[name])
        assert mine[name].dtype == batch[name].dtype
    assert mine["image/present"].all()
    assert mine["text/present"].all()
    # What is left out is absent.
    alone = task.read_sample({"text": "is it even?"})
    assert alone["text/present"].all()
    assert not alone["image/present"].any()
    assert alone["image"].shape == (1, 8, 8, 1)
    Image.new("RGB", (30, 20)).save(tmp_path / "b.png")
    other = task.read_sample({"image": str(tmp_path / "b.png"), "text": " "})
    assert other["image/present"].all()
    assert not other["text/present"].any()
    assert not other["text/mask"].any()
    with pytest.raises(UsageError, match=r"unknown input 'imag'\. Did you mean 'image'"):
        task.read_sample({"imag": "a.png"})
    with pytest.raises(UsageError, match="image, text"):
        task.read_sample({"text": ""})
    with pytest.raises(DataError, match=r"nowhere\.png"):
        task.read_sample({"image": str(tmp_path / "nowhere.png")})
