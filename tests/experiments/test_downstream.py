"""A language model on sets of questions and texts: the function that fills the columns of a table."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from evodevo.backbone.model import Backbone
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import DataError, UsageError
from evodevo.experiments.downstream.evaluate import evaluate_questions, evaluate_tasks, evaluate_text, read_tasks
from evodevo.experiments.downstream.results import TextResult, gap, ratio_interval, result_of
from evodevo.networks.likelihood.reader import reader_of
from evodevo.operators.spec import Dimensions
from evodevo.tasks.text import corpus
from evodevo.tasks.text.tokenizers import ByteTokenizer
from evodevo.testing.networks import small_backbone

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def model() -> Backbone:
    space = BackboneSpace(BackboneSettings(depth=2, dimensions=Dimensions(width=16, head_size=4)))
    return small_backbone(space, space.parse("11111 51111"), 256).eval()


@pytest.fixture(scope="module")
def other() -> Backbone:
    space = BackboneSpace(BackboneSettings(depth=2, dimensions=Dimensions(width=16, head_size=4)))
    return small_backbone(space, space.parse("71111 91111"), 256, seed=1).eval()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    lines = {
        "hellaswag": [
            {"context": f"He took {n}", "choices": ["an egg", "a wooden box", "x"], "answer": n % 3} for n in range(9)
        ],
        "words": [{"context": f"one two {n}", "continuation": "three"} for n in range(4)],
        "pairs": [{"uid": "ab"[n % 2], "good": f"a dog {n}", "bad": f"dog a {n}"} for n in range(6)],
        "contexts": [{"context_options": ["x", "y", "x y"], "continuation": "z", "answer": 1}],
    }
    for name, rows in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_a_dictionary_of_task_and_score(model: Backbone, files: Path) -> None:
    found = evaluate_tasks(model, ByteTokenizer(), [files])
    assert list(found) == ["contexts", "hellaswag", "pairs", "words"]
    assert {name: result.main for name, result in found.items()} == {
        "contexts": "acc", "hellaswag": "acc_norm", "pairs": "acc", "words": "acc",
    }  # fmt: skip
    for result in found.values():
        assert result.score is result.metrics[result.main]
        assert 0 <= result.score.low <= result.score.value <= result.score.high <= 1
    assert set(found["hellaswag"].metrics) == {"acc", "acc_norm"}
    assert found["hellaswag"].chance == pytest.approx(1 / 3)
    assert found["pairs"].groups.keys() == {"a", "b"}
    assert found["words"].perplexity == pytest.approx(256, rel=0.2)  # of tokens, by a model that was never trained


def test_scores_are_those_of_plain_passes(model: Backbone, files: Path) -> None:
    (asked,) = read_tasks([files / "hellaswag.jsonl"])
    right = []
    for question in asked.questions:
        sums = []
        for option in question.options:
            whole = torch.tensor([[0, *(option.context + option.continuation).encode()]])
            with torch.no_grad():
                chances = model.next_logits(whole[:, :-1])[0].log_softmax(-1)
            sums.append(sum(float(chances[n - 1, whole[0, n]]) for n in range(1 + len(option.context), whole.shape[1])))
        right.append(np.argmax(np.asarray(sums) / [option.size for option in question.options]) == question.answer)
    result = evaluate_questions(reader_of(model, ByteTokenizer()), asked)
    assert result.credits["acc_norm"].tolist() == right
    assert evaluate_questions(reader_of(model, ByteTokenizer()), asked, cached=False) == result
    assert result.shortened == 0
    assert evaluate_questions(reader_of(model, ByteTokenizer(), 12), asked).shortened == len(asked.questions)


def test_results_survive_json(model: Backbone, files: Path) -> None:
    reader = reader_of(model, ByteTokenizer())
    for asked in read_tasks([files]):
        result = evaluate_questions(reader, asked)
        again = result_of(json.loads(json.dumps(result.to_json())))
        assert again == result
        np.testing.assert_allclose(again.credits[result.main], result.credits[result.main], atol=1 / 254)
    text = evaluate_text(reader, corpus.read(files / "words.jsonl", field="continuation"), "words")
    again = result_of(json.loads(json.dumps(text.to_json())))
    assert again == text
    np.testing.assert_array_equal(again.each, text.each)


def test_two_models_are_compared_question_by_question(model: Backbone, other: Backbone, files: Path) -> None:
    (asked,) = read_tasks([files / "pairs.jsonl"])
    a, b = (evaluate_questions(reader_of(one, ByteTokenizer()), asked) for one in (model, other))
    same, apart = gap(a, a), gap(a, b)
    assert (same.value, same.low, same.high, same.decided) == (0.0, 0.0, 0.0, False)
    assert apart.value == pytest.approx(a.score.value - b.score.value)
    assert apart.low <= apart.value <= apart.high
    texts = corpus.read(files / "pairs.jsonl", field="good")
    a, b = (evaluate_text(reader_of(one, ByteTokenizer()), texts, "own") for one in (model, other))
    apart = gap(a, b)
    assert apart.value == pytest.approx(a.bits_per_byte - b.bits_per_byte)
    assert apart.low <= apart.value <= apart.high
    assert gap(a, evaluate_questions(reader_of(model, ByteTokenizer()), asked)) is None


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(60):
        weights = rng.integers(50, 150, 40).astype(float)
        low, high = ratio_interval(weights * rng.normal(2.0, 0.3, 40), weights)
        hits += low <= 2.0 <= high
    assert 50 <= hits <= 60
    assert ratio_interval(np.ones(1), np.ones(1)) is None


def test_the_bits_of_a_single_document_have_no_interval(model: Backbone, tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("a single document")
    found = evaluate_text(reader_of(model, ByteTokenizer()), corpus.read(path), "one")
    assert isinstance(found, TextResult)
    assert (found.low, found.high, found.documents, found.bytes, found.tokens) == (None, None, 1, 17, 17)
    assert found.bits_per_byte == pytest.approx(8.0, rel=0.1)
    assert found.perplexity == pytest.approx(2**found.bits_per_byte)
    assert math.isfinite(found.bits_per_byte)


def test_bad_input_is_refused(model: Backbone, files: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "pairs.jsonl").write_text((files / "pairs.jsonl").read_text())
    with pytest.raises(DataError, match="both called 'pairs'"):
        read_tasks([files / "pairs.jsonl", second])
    with pytest.raises(UsageError, match="no network"):
        evaluate_tasks(torch.nn.Linear(2, 2), ByteTokenizer(), [files])


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not here")
def test_a_model_that_knows_nothing_takes_the_shortest_option_of_real_sets(model: Backbone) -> None:
    blank = copy.deepcopy(model)
    with torch.no_grad():
        blank.head.weight.zero_()
    tasks = [SHARED / "lm_downstream_dev" / f"{name}.jsonl.gz" for name in ("copa", "lambada_openai", "openbook_qa")]
    found = evaluate_tasks(blank, ByteTokenizer(), [*tasks, SHARED / "blimp_dev"], limit=60, context_length=128)
    assert {name: result.score.count for name, result in found.items()} == dict.fromkeys(
        ("copa", "lambada_openai", "openbook_qa", "pairs"), 60
    )
    for asked in read_tasks([*tasks, SHARED / "blimp_dev"], 60):
        result = found[asked.name]
        if asked.kind == "continuation":
            assert (result.score.value, result.perplexity) == (0.0, pytest.approx(256))
            continue
        shortest = []
        for question in asked.questions:
            sizes = [len(option.continuation.encode()) for option in question.options]
            shortest.append((sizes[question.answer] == min(sizes)) / sizes.count(min(sizes)))
        assert result.metrics["acc"].value == pytest.approx(np.mean(shortest))
