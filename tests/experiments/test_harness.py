"""The adapter for lm-evaluation-harness: what it asks and answers, and, where it is installed, the harness itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import MissingExtraError, UsageError
from evodevo.experiments.downstream.evaluate import evaluate_questions
from evodevo.experiments.downstream.harness import (
    evaluate_with_harness,
    harness_model,
    harness_rows,
    harness_task,
    pair_likelihoods,
    read_harness,
    text_likelihood,
    write_until,
)
from evodevo.networks.likelihood.reader import Reader, reader_of
from evodevo.operators.spec import Dimensions
from evodevo.tasks.questions.files import read_file
from evodevo.tasks.questions.question import QuestionSet
from evodevo.tasks.text.tokenizers import ByteTokenizer
from evodevo.testing.networks import small_backbone

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def reader() -> Reader:
    space = BackboneSpace(BackboneSettings(depth=2, dimensions=Dimensions(width=16, head_size=4)))
    return reader_of(small_backbone(space, space.parse("11111 51111"), 256), ByteTokenizer(), 64)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, QuestionSet]:
    folder = tmp_path_factory.mktemp("harness")
    lines = {
        "choices": [
            {"question": f"He took {n}", "choices": ["an egg", "a wooden box", "x"], "answer": n % 3} for n in range(12)
        ],
        "words": [{"context": f"one two {n}", "continuation": "three"} for n in range(4)],
        "pairs": [{"good": f"a dog {n}", "bad": f"dog {n} a cat"} for n in range(6)],
        "contexts": [{"context_options": ["x", "y"], "continuation": "z", "answer": 1}],
    }
    found = {}
    for name, rows in lines.items():
        path = folder / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        found[name] = read_file(path)
    return found


def test_neighbours_with_one_context_are_answered_as_single_ones(reader: Reader) -> None:
    pairs = [("one ", "two"), ("one ", "three"), ("", "two"), ("other", " x"), ("one ", "two")]
    together = pair_likelihoods(reader, pairs)
    for pair, (value, greedy) in zip(pairs, together, strict=True):
        ((alone, same),) = pair_likelihoods(reader, [pair])
        assert value == pytest.approx(alone, abs=1e-4)
        assert greedy == same
    assert text_likelihood(reader, "two") == pytest.approx(together[2][0], abs=1e-4)


def test_writing_ends_at_the_first_end(reader: Reader) -> None:
    whole = write_until(reader, "one", {"until": [], "max_gen_toks": 12})
    assert whole
    assert write_until(reader, "one", {"until": [whole[1], "\n\n"], "max_gen_toks": 12}) == whole.split(whole[1])[0]


def test_rows_put_together_again_are_the_questions(asked: dict[str, QuestionSet]) -> None:
    for name in ("choices", "words", "pairs"):
        delimiter = harness_task(asked[name], Path("file"))["target_delimiter"]
        for row, question in zip(harness_rows(asked[name]), asked[name].questions, strict=True):
            texts = row["choices"] if name != "words" else [row["continuation"]]
            assert [(row["context"], delimiter + text) for text in texts] == [
                (option.context, option.continuation) for option in question.options
            ]
            assert [len(text) for text in texts] == [option.size for option in question.options]
    with pytest.raises(UsageError, match="after which context"):
        harness_rows(asked["contexts"])


def test_samples_come_back_in_the_order_of_the_questions(asked: dict[str, QuestionSet]) -> None:
    samples = [{"doc_id": place, "acc": place % 2, "acc_norm": 1} for place in (3, 0, 5, 1, 4, 2)]
    found = read_harness(asked["pairs"], {"samples": {"pairs": samples}, "results": {"pairs": {}}})
    assert found.credits["acc"].tolist() == [0, 1, 0, 1, 0, 1]
    assert found.metrics["acc_norm"].value == 1.0


def test_it_is_refused_where_it_is_missing(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"evodevo\[eval\]"):
        harness_model(reader)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_harness_answers_as_we_do(reader: Reader, asked: dict[str, QuestionSet]) -> None:
    pytest.importorskip("lm_eval", reason="the extra eval is not installed")
    sets = [asked["choices"], asked["words"], asked["pairs"]]
    for name in ("copa", "openbook_qa"):
        path = SHARED / "lm_downstream_dev" / f"{name}.jsonl.gz"
        sets += [read_file(path).first(20)] if path.exists() else []
    for one in sets:
        theirs, ours = evaluate_with_harness(reader, one), evaluate_questions(reader, one)
        assert theirs.metrics["acc"] == ours.metrics["acc"]
        if one.kind == "continuation":
            assert theirs.perplexity is not None
        else:
            assert theirs.metrics["acc_norm"] == ours.metrics["acc_norm"]
    assert torch.is_grad_enabled()
