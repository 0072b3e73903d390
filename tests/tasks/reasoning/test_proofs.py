"""Proofs: each answer and depth is found again by another prover that reads the words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.tasks.base import NO_TARGET, SPLITS
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.reasoning import theory_text
from evodevo.tasks.reasoning.proofs import ProofsSettings, ProofsTask

Literal = tuple[str, bool]
NEVER = 99


@dataclass(frozen=True)
class Theory:
    """What the words say: facts about names, rules about one name or (None) about everyone."""

    facts: frozenset[tuple[str, Literal]]
    rules: frozenset[tuple[str | None, frozenset[Literal], Literal]]


def literals(words: list[str]) -> list[Literal]:
    """Adjectives, each negated where "not" stands before it."""
    found, positive = [], True
    for word in words:
        if word == "not":
            positive = False
        elif word in theory_text.ADJECTIVES:
            found.append((word, positive))
            positive = True
    return found


def parse(text: str) -> tuple[Theory, str, Literal]:
    """Theory, and whom and what is asked."""
    *sentences, question = text.removesuffix(" ?").split(" . ")
    facts, rules = set(), set()
    for sentence in sentences:
        words = sentence.split()
        if words[0] in theory_text.NAMES:
            facts.add((words[0], *literals(words)))
            continue
        *body, head = literals(words)
        names = [word for word in words if word in theory_text.NAMES]
        assert len(set(names)) <= 1
        rules.add((names[0] if names else None, frozenset(body), head))
    asked = question.split()
    return Theory(frozenset(facts), frozenset(rules)), asked[0], literals(asked)[0]


class Prover:
    """Backward search with a limit of depth, from the definition."""

    def __init__(self, theory: Theory, name: str) -> None:
        self._facts = {literal for who, literal in theory.facts if who == name}
        self._rules = [(body, head) for who, body, head in theory.rules if who in (None, name)]
        self.proven = cache(self._proven)
        self.refuted = cache(self._refuted)

    def _proven(self, literal: Literal, depth: int) -> bool:
        return literal in self._facts or (
            depth > 0
            and any(all(self.proven(one, depth - 1) for one in body) for body, head in self._rules if head == literal)
        )

    def _refuted(self, literal: Literal, depth: int) -> bool:
        bodies = [body for body, head in self._rules if head == literal]
        if literal in self._facts or (bodies and depth == 0):
            return False
        return all(any(self.refuted(one, depth - 1) for one in body) for body in bodies)

    def depth(self, literal: Literal) -> tuple[bool, int]:
        """Whether it follows, and the depth of the shortest proof or of the search that fails."""
        for depth in range(20):
            if self.proven(literal, depth):
                return True, depth
            if self.refuted(literal, depth):
                return False, depth
        return False, NEVER  # a circle of rules: neither is ever shown


def verdict(world: str, text: str) -> tuple[str, int]:
    theory, name, (adjective, positive) = parse(text)
    prover = Prover(theory, name)
    if world == "closed":
        assert all(sign for _, (_, sign) in theory.facts)
        follows, depth = prover.depth((adjective, True))
        return ("true" if follows == positive else "false"), depth
    follows, depth = prover.depth((adjective, positive))
    if follows:
        return "true", depth
    contrary, other = prover.depth((adjective, not positive))
    return ("false", other) if contrary else ("unknown", max(depth, other))


def settings(**values: Any) -> ProofsSettings:
    return ProofsSettings(**{"samples": SplitSizes(train=360, validation=72, test=360), **values})


@lru_cache(maxsize=16)
def opened(given: ProofsSettings) -> ProofsTask:
    return ProofsTask.open(given)


WORLDS = pytest.mark.parametrize("world", ["closed", "open"])


@pytest.mark.parametrize(("world", "wording"), [("closed", "terse"), ("open", "english")])
def test_another_prover_agrees(world: str, wording: str) -> None:
    task = opened(settings(world=world, wording=wording))
    for split in SPLITS:
        places = np.arange(task.count(split))
        groups = task.groups(split, places)
        for place in places.tolist():
            shown = task.show(split, place)
            depth = int(task.group_names["depth"][groups["depth"][place]])
            assert verdict(world, shown["text"]) == (shown["answer"], depth), shown["text"]


@WORLDS
def test_no_theory_contradicts_itself_and_how_much_is_said_of_whom_hints_at_no_answer(world: str) -> None:
    """Once, whoever had the most facts was whoever began the chain, and that alone answered nine tenths of the deep."""
    task = opened(settings(world=world))
    for place in range(100):
        theory, *_ = parse(task.show("test", place)["text"])
        for name in theory_text.NAMES:
            prover = Prover(theory, name)
            for adjective in theory_text.ADJECTIVES:
                assert not (prover.proven((adjective, True), 10) and prover.proven((adjective, False), 10))
    for place in range(200):
        theory, _, _ = parse(task.show("train", place)["text"])
        assert set(Counter(name for name, _ in theory.facts).values()) == {2}


@WORLDS
def test_each_answer_is_equally_frequent_at_each_depth(world: str) -> None:
    task = opened(settings(world=world))
    for split in SPLITS:
        groups = task.groups(split, np.arange(task.count(split)))
        assert set(groups["depth"].tolist()) == set(range(3 if split == "train" else 6)), "training is no deeper"
        cells = Counter(zip(groups["depth"].tolist(), groups["answer"].tolist(), strict=True))
        depths = task.settings.depths(split)
        assert len(cells) == len(depths) * len(task.group_names["answer"])
        assert max(cells.values()) - min(cells.values()) <= 1


@pytest.mark.slow
@WORLDS
def test_the_question_alone_says_nothing(world: str) -> None:
    task = opened(settings(world=world, samples=SplitSizes(train=3_000, validation=60, test=1_200)))
    for split in SPLITS:
        groups = task.groups(split, np.arange(task.count(split)))
        negated = [parse(task.show(split, place)["text"])[2][1] for place in range(task.count(split))]
        forms = Counter(zip(groups["depth"].tolist(), groups["answer"].tolist(), negated, strict=True))
        assert max(forms.values()) - min(forms.values()) <= 1
        assert len(forms) == 2 * len(task.settings.depths(split)) * len(task.group_names["answer"])
    baselines = task.baselines("test")
    chance = 1 / len(task.group_names["answer"])
    assert baselines["majority"] == pytest.approx(chance, abs=0.01)
    assert baselines["word counts"] < chance + 0.06


@WORLDS
def test_what_a_theory_says_stands_in_one_split_and_once(world: str) -> None:
    # Small theories, equal depths: many would coincide.
    given = settings(
        world=world, depths_train=(0, 1), depths_test=(0, 1), entities=2, attributes=3, facts=3, rules=1,
        samples=SplitSizes(train=4_000, validation=600, test=600),
    )  # fmt: skip
    task = opened(given)
    theories = [[parse(task.show(split, place)["text"])[0] for place in range(task.count(split))] for split in SPLITS]
    for number, one in enumerate(theories):
        assert len(set(one)) == len(one)
        for other in theories[number + 1 :]:
            assert not set(one) & set(other)


@WORLDS
def test_language_is_the_same_samples_with_the_answer_to_predict(world: str) -> None:
    asked, told = opened(settings(world=world)), opened(settings(world=world, form="language"))
    alone = opened(settings(world=world, form="language", loss="answer"))
    places = np.arange(asked.count("test"))
    rows = np.arange(len(places))
    question, language, answer = (task.fetch("test", places) for task in (asked, told, alone))
    np.testing.assert_array_equal(question["text"], language["text"])
    position = language["answer/position"]
    np.testing.assert_array_equal(position, question["text/mask"].sum(axis=1) - 1)
    assert (question["text"][rows, position] == theory_text.ID["?"]).all()
    expected = np.asarray(told.answer_tokens)[question["answer/target"]]
    np.testing.assert_array_equal(language["answer/target"][rows, position], expected)
    assert (language["answer/target"] != NO_TARGET).sum() == question["text/mask"].sum()
    np.testing.assert_array_equal((answer["answer/target"] != NO_TARGET).sum(axis=1), 1)
    np.testing.assert_array_equal(answer["answer/target"][rows, position], expected)
    assert [theory_text.VOCABULARY[token] for token in told.answer_tokens] == list(told.group_names["answer"])


@WORLDS
def test_questions_may_all_be_positive(world: str) -> None:
    task = opened(settings(world=world, negated_questions=False))
    for place in range(0, task.count("test"), 3):
        shown = task.show("test", place)
        assert parse(shown["text"])[2][1]
        assert verdict(world, shown["text"])[0] == shown["answer"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rules": 4}, "depth 5 needs at least 5 rules"),
        ({"attributes": 6}, "7 attributes"),
        ({"depths_train": [1, 1]}, "distinct depths"),
        ({"depths_test": [13]}, "from 0 to 12"),
        ({"entities": 9}, "entities"),
        ({"world": "half"}, "world"),
        ({"questions": 2}, "form = language"),
        ({"shares": (1, 2)}, "shares"),
        ({"shares": (1, 0, 1)}, "shares"),
        ({"shares": (1, -1, 1)}, "shares"),
    ],
)
def test_settings_that_cannot_be_meant(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate(ProofsSettings, values, what="task")


def test_questions_that_hardly_exist_are_told() -> None:
    # Two entities and three attributes have six facts.
    given = settings(depths_train=(0, 1), depths_test=(0, 1), entities=2, attributes=3, facts=7)
    with pytest.raises(UsageError, match=r"7 facts.*depth 0 answered .*\. Give more attributes"):
        ProofsTask.open(given)


@pytest.mark.parametrize(("world", "loss"), [("closed", "all"), ("open", "answer")])
def test_further_questions_are_answered_in_the_targets_and_nowhere_in_the_text(world: str, loss: str) -> None:
    task = opened(settings(world=world, form="language", loss=loss, questions=6, words="few"))
    batch = task.fetch("train", np.arange(task.count("train")))
    asked: Counter[tuple[int, bool, str]] = Counter()
    several = 0
    for place, (row, target) in enumerate(zip(batch["text"], batch["answer/target"], strict=True)):
        words = theory_text.text(row).split()
        assert not set(words) & set(theory_text.ANSWERS)
        told = len(words) - words[::-1].index(".")
        theory, rest = " ".join(words[:told]).removesuffix(" ."), " ".join(words[told:])
        questions = rest.removesuffix(" ?").split(" ? ")
        marks = np.flatnonzero(row == theory_text.ID["?"])
        assert len(questions) == len(marks) <= 6
        assert marks[-1] == batch["answer/position"][place]
        several += len(marks) > 1
        for question, mark in zip(questions, marks.tolist(), strict=True):
            answer, depth = verdict(world, f"{theory} . {question} ?")
            assert theory_text.VOCABULARY[target[mark]] == answer
            asked[depth, "not" in question, answer] += 1
        others = np.setdiff1d(np.arange(marks[-1]), marks)
        assert (target[others] == (row[others + 1] if loss == "all" else NO_TARGET)).all()
    assert several > 0.9 * task.count("train")
    for depth, negated, _ in list(asked):
        counts = [asked[depth, negated, answer] for answer in task.settings.answers]
        assert max(counts) - min(counts) <= 2, asked


def test_held_out_theories_are_asked_one_question() -> None:
    task = opened(settings(form="language", questions=6))
    for split in ("validation", "test"):
        assert ((task.fetch(split, np.arange(task.count(split)))["text"] == theory_text.ID["?"]).sum(1) == 1).all()


def test_few_words_are_those_that_a_theory_needs_and_terse_is_shorter() -> None:
    task = opened(settings(words="few"))
    words = {word for place in range(200) for word in task.show("train", place)["text"].split()}
    assert words & set(theory_text.NAMES) == set(theory_text.NAMES[: task.settings.entities])
    assert words & set(theory_text.ADJECTIVES) == set(theory_text.ADJECTIVES[: task.settings.attributes])
    english, terse = opened(settings()), opened(settings(wording="terse"))
    assert terse.describe()["mean_length"]["test"] < 0.75 * english.describe()["mean_length"]["test"]


def test_shares_decide_which_depths_further_questions_have() -> None:
    task = opened(settings(form="language", questions=8, words="few", negated_questions=False, shares=(8, 1, 1)))
    depths: Counter[int] = Counter()
    for row in task.fetch("train", np.arange(200))["text"]:
        theory, _, asked = theory_text.text(row).rpartition(" . ")
        depths.update(verdict("closed", f"{theory} . {one} ?")[1] for one in asked.removesuffix(" ?").split(" ? ")[:-1])
    assert depths[0] > 2 * (depths[1] + depths[2])
    assert depths[1] > 0
    assert depths[2] > 0
