"""Generated topics."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.text.text_labels import TextLabelsSettings, TextLabelsTask
from evodevo.tasks.text.topics import TopicSettings, generate

SIZES = SplitSizes(train=200, validation=40, test=60)


def test_topics_take_turns_in_each_split_and_the_seed_decides() -> None:
    samples = generate(TopicSettings(classes=20, samples=SIZES))
    counts = Counter((split, topic) for split, topic, _ in samples)
    assert {split for split, _ in counts} == {"train", "validation", "test"}
    assert {counts["train", f"topic {number:03d}"] for number in range(20)} == {10}
    assert {counts["test", f"topic {number:03d}"] for number in range(20)} == {3}
    assert len({text for *_, text in samples}) == len(samples)
    assert all(16 <= len(text.split()) <= 48 for *_, text in samples)
    zero, one = (generate(TopicSettings(samples=SIZES, seed=seed)) for seed in (0, 1))
    assert zero == generate(TopicSettings(samples=SIZES))
    assert zero != one


def test_counting_words_goes_far_and_not_all_the_way(tmp_path: Path) -> None:
    # As docs/spec/h_model.md#experiments has it: majority 5 %, tf-idf good and not perfect.
    settings = TopicSettings(samples=SplitSizes(train=2_000, validation=200, test=600))
    task = TextLabelsTask.open(TextLabelsSettings(topics=settings, tokenizer="bytes"), tmp_path)
    baselines = task.baselines("test")
    assert baselines["majority"] == pytest.approx(0.05)
    assert 0.7 < baselines["tf-idf"] < 0.93
