"""Questions of files: every form of a line, and what is refused with file and line."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import DataError, ExitCode, UsageError
from evodevo.tasks.questions.files import read
from evodevo.tasks.questions.question import Option, Question

SHARED = Path(__file__).parents[4] / "shared" / "data"
DOWNSTREAM, BLIMP = SHARED / "lm_downstream_dev", SHARED / "blimp_dev"


def write(folder: Path, *lines: Any, name: str = "own.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


@pytest.mark.parametrize(
    ("line", "kind", "question"),
    [
        (
            {"question": "The sky is", "choices": ["blue.", "größer."], "answer": 0, "id": 7},
            "choice",
            Question((Option("The sky is", " blue.", 5), Option("The sky is", " größer.", 9)), 0),
        ),
        (
            {"context": "It rains.", "question": "What falls?", "choices": ["a", "b", "c"], "answer": "C"},
            "choice",
            Question(tuple(Option("It rains.\nWhat falls?", f" {c}", 1) for c in "abc"), 2),
        ),
        (
            {"query": "Question: Who?\n", "choices": ["I", "you"], "gold": "you", "group": "people"},
            "choice",
            Question(
                (Option("Question: Who?\nAnswer:", " I", 1), Option("Question: Who?\nAnswer:", " you", 3)), 1, "people"
            ),
        ),
        (
            {"query": "x\n", "choices": ["B", "A"], "gold": "A"},  # a text before a letter
            "choice",
            Question((Option("x\n", "B", 1), Option("x\n", "A", 1)), 1),
        ),
        (
            {"context_options": ["a cat", "a dog"], "continuation": "barks", "gold": 1},
            "choice",
            Question((Option("a cat", " barks", 5), Option("a dog", " barks", 5)), 1),
        ),
        (
            {"context": "He said", "continuation": "signs"},
            "continuation",
            Question((Option("He said", " signs", 5),), 0),
        ),
        (
            {"uid": "island", "good": "one two", "bad": "two one"},
            "choice",
            Question((Option("", "one two", 7), Option("", "two one", 7)), 0, "island"),
        ),
    ],
    ids=lambda value: "" if isinstance(value, Question) else str(value)[:30],
)
def test_each_form_of_a_line(tmp_path: Path, line: dict[str, Any], kind: str, question: Question) -> None:
    (asked,) = read(write(tmp_path, line, "", line))
    assert (asked.name, asked.kind, asked.questions) == ("own", kind, (question, question))


GOOD = {"question": "q", "choices": ["a", "b"], "answer": 1}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"question": "q", "choices": ["a", "b"]}, "line 2: answer (or gold) is missing (there: choices, question)"),
        ({"choices": ["a", "b"], "answer": 0}, "line 2: question (or context, query) is missing"),
        ({"question": "q", "answer": 0}, "line 2 is no question: choices is missing"),
        ({"good": "a"}, "line 2: bad is missing"),
        ({"continuation": "a"}, "line 2: context is missing"),
        (GOOD | {"choices": ["a"]}, "list of 2 to 26 texts"),
        (GOOD | {"choices": ["a", " "]}, "not blank"),
        (GOOD | {"choices": ["a", 3]}, "not blank; got '3'"),
        (GOOD | {"answer": 2}, "the place of the right option (0 to 1), its letter (A to B), or its text"),
        (GOOD | {"answer": True}, "got"[:0] + "line 2: answer is 'True'"),
        (GOOD | {"question": ""}, "line 2: question must be a text"),
        ({"good": "a", "bad": "a"}, "the same text"),
        ({"context": "a", "continuation": "b"}, "line 2: a file asks either for a choice or for a continuation"),
        ("{", "line 2"),
        ("[1]", "line 2 is no JSON object"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_no_question_is_refused_with_its_number(tmp_path: Path, line: Any, words: str) -> None:
    path = write(tmp_path, GOOD, line)
    with pytest.raises(DataError) as refused:
        read(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)
    assert refused.value.exit_code == ExitCode.USAGE


def test_files_and_folders(tmp_path: Path) -> None:
    line = json.dumps(GOOD).encode()
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "a.x.jsonl.xz").write_bytes(lzma.compress(line))
    (tmp_path / "README.md").write_text("no questions")
    assert [asked.name for asked in read(tmp_path)] == ["a.x", "b"]
    for place, words in ((tmp_path / "README.md", "no file of questions"), (tmp_path / "c.jsonl", "no questions at")):
        with pytest.raises(DataError, match=words):
            read(place)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="holds no questions"):
        read(empty)
    with pytest.raises(DataError, match="no line with a question"):
        read(write(empty, ""))
    (empty / "cut.jsonl.gz").write_bytes(gzip.compress(line * 100)[:40])
    with pytest.raises(DataError, match="cannot be read"):
        read(empty / "cut.jsonl.gz")


def test_a_limit_spreads_over_the_file(tmp_path: Path) -> None:
    (asked,) = read(write(tmp_path, *(GOOD | {"question": str(n)} for n in range(10))))
    assert [question.options[0].context for question in asked.first(4).questions] == ["0", "2", "5", "7"]
    assert asked.first(None) is asked
    assert asked.first(99) is asked
    assert asked.first(4).digest != asked.digest
    with pytest.raises(UsageError, match="at least 1"):
        asked.first(0)


@pytest.mark.skipif(not DOWNSTREAM.is_dir(), reason="../shared/data/lm_downstream_dev is not here")
def test_the_recorded_downstream_sets() -> None:
    found = {asked.name: asked for asked in read(DOWNSTREAM)}
    counts = {"arc_easy": 2376, "piqa": 1838, "lambada_openai": 5153, "copa": 100, "openbook_qa": 500}
    assert {name: len(asked.questions) for name, asked in found.items()} == counts
    assert found["piqa"].chance == found["copa"].chance == 0.5
    assert found["arc_easy"].chance == pytest.approx(0.25, abs=1e-3)
    assert (found["lambada_openai"].kind, found["lambada_openai"].chance) == ("continuation", 0.0)
    assert {question.answer for question in found["openbook_qa"].questions} == {0, 1, 2, 3}
    assert found["piqa"].questions[0].options[0].context.endswith("\nAnswer:")


@pytest.mark.skipif(not BLIMP.is_dir(), reason="../shared/data/blimp_dev is not here")
def test_the_recorded_minimal_pairs() -> None:
    (asked,) = read(BLIMP)
    groups = asked.groups()
    assert (len(asked.questions), len(groups), asked.chance) == (13_000, 13, 0.5)
    assert {len(places) for places in groups.values()} == {1000}
