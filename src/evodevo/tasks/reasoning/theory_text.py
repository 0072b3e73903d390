"""The text form of theories: English-like sentences from a closed vocabulary, one token per word.

Shapes: N theories, W words of the longest one.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError, quoted_list
from evodevo.tasks.generated import mix
from evodevo.tasks.reasoning.theories import ABSENT, EVERYONE, Theories

Wording = Literal["english", "terse"]
Choice = Literal["many", "few"]

ANSWERS = ("true", "false", "unknown")
NAMES = ("anne", "bob", "carl", "dora", "erin", "fred", "gwen", "hugo")
ADJECTIVES = (
    *("big", "blue", "bold", "calm", "cold", "fast", "green", "kind"),
    *("loud", "nice", "quiet", "red", "rich", "rough", "round", "young"),
)
_FUNCTION_WORDS = (
    *(".", "?", "is", "not", "and", "if", "then"),
    *("someone", "they", "are", "everyone", "who", "all", "people"),
)
PADDING = "<pad>"
VOCABULARY = (PADDING, *_FUNCTION_WORDS, *ANSWERS, *NAMES, *ADJECTIVES)

ID = {word: number for number, word in enumerate(VOCABULARY)}
_NAME, _ADJECTIVE = ID[NAMES[0]], ID[ADJECTIVES[0]]
_ANSWER = ID[ANSWERS[0]]
_SLOTS = 14  # tokens of the longest sentence: if someone is not A and not B then they are not C .

Ids = NDArray[np.int64]


class TheoryWords:
    """Names of the entities and adjectives of the attributes of N theories, drawn at random for each theory.

    Args:
        rng: Generator of the names.
        count: Number of theories N.
        entities: Number of entities, at most the number of names.
        attributes: Number of attributes, at most the number of adjectives.
        choice: Words to choose from: "many" = all, "few" = as many as a theory needs.
    """

    def __init__(
        self, rng: np.random.Generator, count: int, entities: int, attributes: int, choice: Choice = "many"
    ) -> None:
        pool = (len(NAMES), len(ADJECTIVES)) if choice == "many" else (entities, attributes)
        names = np.argsort(rng.random((count, pool[0])), axis=1)[:, :entities]
        adjectives = np.argsort(rng.random((count, pool[1])), axis=1)[:, :attributes]
        self.names: Ids = names + _NAME
        self.adjectives: Ids = adjectives + _ADJECTIVE

    def take(self, indices: NDArray[np.bool_] | Ids) -> TheoryWords:
        """The words of the theories at these indices."""
        some = object.__new__(TheoryWords)
        some.names, some.adjectives = self.names[indices], self.adjectives[indices]
        return some

    def name(self, entities: Ids) -> Ids:
        """Token ids of the names of entities (N, ...). Same shape."""
        return _look_up(self.names, entities)

    def literal(self, literals: Ids) -> tuple[Ids, Ids]:
        """Token ids of ("not" or padding, adjective) for literals (N, ...); padding twice where ABSENT."""
        there = literals != ABSENT
        adjective = _look_up(self.adjectives, np.where(there, literals, 0) // 2)
        return np.where(there & (literals % 2 == 1), ID["not"], 0), np.where(there, adjective, 0)


def fingerprint(theories: Theories, words: TheoryWords) -> NDArray[np.uint64]:
    """A fingerprint of each theory's meaning, independent of the order and wording of its sentences. Shape (N,)."""
    facts = _code(words.name(theories.fact_entity), _signed(words, theories.fact_literal))
    everyone = theories.rule_subject == EVERYONE
    subject = np.where(everyone, ID["someone"], words.name(np.where(everyone, 0, theories.rule_subject)))
    body = np.sort(_signed(words, theories.rule_body), axis=2)
    rules = _code(subject, body[:, :, 0], body[:, :, 1], _signed(words, theories.rule_head))
    total: NDArray[np.uint64] = facts.sum(axis=1, dtype=np.uint64) + rules.sum(axis=1, dtype=np.uint64)
    return total


def render(rng: np.random.Generator, theories: Theories, words: TheoryWords, wording: Wording) -> Ids:
    """The sentences of theories in random order.

    Args:
        rng: Generator of the order and, in English, of the form of each rule about everyone.
        theories: N theories.
        words: Words of the theories.
        wording: ``terse`` leaves out the words that the meaning does not need, a third of all.

    Returns:
        Token ids, (N, sentences * slots), with padding anywhere between words.
    """
    everyone = theories.rule_subject == EVERYONE
    subject = words.name(np.where(everyone, 0, theories.rule_subject))
    first, second = words.literal(theories.rule_body[:, :, 0]), words.literal(theories.rule_body[:, :, 1])
    head = words.literal(theories.rule_head)
    if wording == "terse":
        facts = _sentence(words.name(theories.fact_entity), *words.literal(theories.fact_literal), ID["."])
        whom = np.where(everyone, 0, subject)
        rules = _sentence(ID["if"], whom, *first, *second, ID["then"], *head, ID["."])
    else:
        facts = _sentence(words.name(theories.fact_entity), ID["is"], *words.literal(theories.fact_literal), ID["."])
        conditions = (*first, np.where(theories.rule_body[:, :, 1] == ABSENT, 0, ID["and"]), *second)
        whom, they = np.where(everyone, ID["someone"], subject), np.where(everyone, ID["they"], subject)
        verb = np.where(everyone, ID["are"], ID["is"])
        forms = (
            _sentence(ID["if"], whom, ID["is"], *conditions, ID["then"], they, verb, *head, ID["."]),
            _sentence(ID["everyone"], ID["who"], ID["is"], *conditions, ID["is"], *head, ID["."]),
            _sentence(ID["all"], *conditions, ID["people"], ID["are"], *head, ID["."]),
        )
        form = np.where(everyone, rng.integers(0, 3, everyone.shape), 0)
        rules = np.choose(form[:, :, None], forms)

    sentences = np.concatenate([facts, rules], axis=1)
    order = np.argsort(rng.random(sentences.shape[:2]), axis=1)
    shuffled: Ids = np.take_along_axis(sentences, order[:, :, None], axis=1)
    return shuffled.reshape(len(sentences), -1)


def question(words: TheoryWords, entities: Ids, literals: Ids, wording: Wording) -> Ids:
    """``NAME is (not) ADJECTIVE ?`` for entities (N,) and literals (N,). Shape (N, slots)."""
    verb = 0 if wording == "terse" else ID["is"]
    return _sentence(words.name(entities), verb, *words.literal(literals), ID["?"])


def questions(words: TheoryWords, entities: Ids, literals: Ids, wording: Wording) -> Ids:
    """Token ids of questions about entities and literals (N, Q), both ABSENT without one. Shape (N, Q, slots)."""
    verb = 0 if wording == "terse" else ID["is"]
    asked = _sentence(words.name(np.maximum(entities, 0)), verb, *words.literal(literals), ID["?"])
    shown: Ids = np.where(entities[:, :, None] == ABSENT, 0, asked)
    return shown


def answer(answers: Ids) -> Ids:
    """Token ids of answers (N,). Shape (N, 1)."""
    return answers[:, None] + _ANSWER


def pack(tokens: Ids) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Move padding behind the words.

    Args:
        tokens: Token ids with padding anywhere, (N, any).

    Returns:
        Token ids, then padding, (N, W); number of words, (N,).
    """
    real = tokens != 0
    lengths = real.sum(axis=1)
    packed = np.zeros((len(tokens), int(lengths.max(initial=0))), np.uint8)
    packed[np.arange(packed.shape[1]) < lengths[:, None]] = tokens[real]
    return packed, lengths


def text(tokens: NDArray[np.integer]) -> str:
    """Tokens as text, without padding."""
    return " ".join(VOCABULARY[token] for token in tokens.tolist() if token)


def tokens(words: str) -> Ids:
    """The token ids of a user's theory and question.

    Raises:
        UsageError: A word is not in the vocabulary.
    """
    pieces = re.findall(r"\w+|[^\w\s]", words.lower())
    unknown = [word for word in pieces if word not in ID]
    if unknown:
        raise UsageError(
            f"the word {unknown[0][:40]!r} is not in the vocabulary of theories; known: {quoted_list(VOCABULARY[1:])}."
        )
    return np.array([ID[word] for word in pieces], dtype=np.int64)


def _look_up(table: Ids, indices: Ids) -> Ids:
    values: Ids = np.take_along_axis(table, indices.reshape(len(indices), -1), axis=1).reshape(indices.shape)
    return values


def _signed(words: TheoryWords, literals: Ids) -> Ids:
    """A number per literal: twice the id of the adjective, plus one where it is negated. Same shape."""
    negation, adjective = words.literal(literals)
    signed: Ids = 2 * adjective + (negation != 0)
    return signed


def _code(*parts: Ids) -> NDArray[np.uint64]:
    code = np.zeros(parts[0].shape, np.uint64)
    for part in parts:
        code = mix(code ^ part.astype(np.uint64))
    return code


def _sentence(*slots: Ids | int) -> Ids:
    """Words of one shape side by side, padded at the end. Shape (..., slots)."""
    shape = next(slot.shape for slot in slots if not isinstance(slot, int))
    result: Ids = np.zeros((*shape, _SLOTS), np.int64)
    for index, slot in enumerate(slots):
        result[..., index] = slot
    return result
