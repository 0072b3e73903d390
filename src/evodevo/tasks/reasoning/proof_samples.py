"""Samples of the task ``proofs``: theories with questions, drawn so that each answer is equally frequent at each depth.

Shapes: N theories, E entities, L tokens of the longest sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.randomness import generator
from evodevo.settings import Settings
from evodevo.tasks.base import Split
from evodevo.tasks.generated import SplitSizes, belongs
from evodevo.tasks.reasoning import proof_questions, theories, theory_text
from evodevo.tasks.reasoning.proof_questions import NOT_ASKED, Cell

_DRAWN_AT_ONCE = 8_192
_PATIENCE = 20  # batches of theories in a row without a useful question, after which the settings are refused


class ProofsSettings(Settings):
    """World, depths and sizes of the theories, and the form of a sample."""

    world: Literal["closed", "open"] = Field(default="closed", description="closed: true, false; open: unknown too")
    form: Literal["answer", "language"] = Field(
        default="answer", description="one class, or predict each next token of theory, question and answer"
    )
    loss: Literal["all", "answer"] = Field(
        default="all", description="targets of the form language: each token, or the answer alone"
    )
    wording: theory_text.Wording = Field(default="english", description="terse leaves out every dispensable word")
    words: theory_text.Choice = Field(
        default="many", description="few: no more names and adjectives than a theory needs, which are soon learnt"
    )
    depths_train: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1, description="depths of training questions")
    depths_test: tuple[int, ...] = Field(
        default=(0, 1, 2, 3, 4, 5), min_length=1, description="depths of validation and test questions"
    )
    negated_questions: bool = Field(default=True, description='half of the questions ask "is not"; else none does')
    questions: int = Field(
        default=1,
        ge=1,
        le=32,
        description="largest number of questions about each training theory in the form language; all are answered "
        "in the targets and none in the text; held-out theories always have one",
    )
    shares: tuple[float, ...] = Field(
        default=(),
        description="shares of the depths among all but the last question of a training theory, by ascending depth and "
        "in any unit; equal if left out",
    )
    entities: int = Field(default=3, ge=2, le=8, description="number of entities in a theory")
    attributes: int = Field(default=8, ge=3, le=16, description="number of attributes in a theory")
    facts: int = Field(default=6, ge=3, le=24, description="number of facts in a theory, even among entities")
    rules: int = Field(default=7, ge=1, le=24, description="number of rules in a theory")
    samples: SplitSizes = SplitSizes(train=20_000, validation=3_000, test=3_000)
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the generator")

    @model_validator(mode="after")
    def _theories_are_large_enough(self) -> Self:
        for name in ("depths_train", "depths_test"):
            depths = getattr(self, name)
            if len(set(depths)) != len(depths) or not all(0 <= depth <= 12 for depth in depths):
                raise ValueError(f"{name} is {list(depths)}; distinct depths from 0 to 12 are allowed")
        deepest = max(*self.depths_train, *self.depths_test)
        if self.rules < deepest or self.attributes < deepest + 2:
            raise ValueError(
                f"a proof of depth {deepest} needs at least {deepest} rules and {deepest + 2} attributes; "
                f"there are {self.rules} and {self.attributes}"
            )
        if self.questions > 1 and self.form != "language":
            raise ValueError(
                f"questions is {self.questions}; the form answer has one answer per sample: give form = language"
            )
        if self.shares and (len(self.shares) != len(self.depths_train) or not all(0 < s < 1e6 for s in self.shares)):
            raise ValueError(
                f"shares is {list(self.shares)}; give one positive number for each of {len(self.depths_train)} depths"
            )
        return self

    def depths(self, split: Split) -> tuple[int, ...]:
        """The depths of a split's questions, ascending."""
        return tuple(sorted(self.depths_train if split == "train" else self.depths_test))

    def share(self, depth: int) -> float:
        """Share of a depth among further questions, in any unit."""
        return dict(zip(self.depths("train"), self.shares, strict=True))[depth] if self.shares else 1.0

    def asked(self, split: Split) -> int:
        """Largest number of questions about a theory of a split."""
        return self.questions if split == "train" else 1

    @property
    def answers(self) -> tuple[str, ...]:
        """Names of the possible answers."""
        return theory_text.ANSWERS if self.world == "open" else theory_text.ANSWERS[:2]

    def decisive(self) -> dict[str, Any]:
        """The settings that influence the samples, JSON-able: not the order of depths, nor settings without effect."""
        values = self.model_dump(mode="json")
        values["depths_train"], values["depths_test"] = list(self.depths("train")), list(self.depths("test"))
        if self.form == "answer":
            del values["loss"]
        if self.questions == 1:
            del values["shares"]
        return values


@dataclass(frozen=True)
class ProofSamples:
    """Samples of one split.

    Attributes:
        tokens: Theory, further questions without answers, question and answer, (count, L).
        lengths: Number of tokens, (count,).
        answers: Index of the question's answer, (count,).
        depths: Depth of the question, (count,).
        replies: Answers of all questions in order, (count, questions); NOT_ASKED where a sample has fewer.
    """

    tokens: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    answers: NDArray[np.int64]
    depths: NDArray[np.int64]
    replies: NDArray[np.int64]


def draw(settings: ProofsSettings, split: Split) -> ProofSamples:
    """Draw theories of the split, each with a question, until every cell is full.

    A cell is (depth, answer, negated or not), so that neither the depth nor the form of a question predicts its answer.

    Raises:
        UsageError: Theories of these sizes almost never have such questions.
    """
    rng = generator(settings.seed, split, "proofs")
    depths, answers, count = settings.depths(split), len(settings.answers), settings.samples.of(split)
    forms = (0, 1) if settings.negated_questions else (0,)
    cells = [Cell(depth, answer, negated) for negated in forms for depth in depths for answer in range(answers)]
    depth_of, answer_of = np.array([cell.depth for cell in cells]), np.array([cell.answer for cell in cells])
    shares = np.array([settings.share(depth) if split == "train" else 1.0 for depth in depth_of.tolist()])
    # In turn: all answers at all depths in one form, then in the other; no two counts differ by more than one.
    each = len(cells) // len(forms)
    turn = rng.permutation(each) + each * np.arange(len(forms))[:, None]
    wanted = np.bincount(turn.reshape(-1)[np.arange(count) % len(cells)], minlength=len(cells))
    tokens: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    filled: list[NDArray[np.int64]] = []
    others: list[NDArray[np.int64]] = []
    seen = np.empty(0, np.uint64)
    idle = 0
    while wanted.any() and idle < _PATIENCE:
        missing = np.flatnonzero(wanted)
        drawn, names, fingerprints, verdicts = _theories(rng, settings, split, seen)
        # Equally many attempts for rare and common cells; surplus samples of the common ones are dropped.
        cell = rng.choice(missing, size=len(fingerprints))
        candidates = np.zeros((len(cell), settings.entities, 2 * settings.attributes), np.bool_)
        for number in missing:
            chosen = np.flatnonzero(cell == number)
            candidates[chosen] = proof_questions.possible(
                drawn.take(chosen), verdicts.take(chosen), settings.attributes, settings.world, cells[number]
            )
        entity, literal = proof_questions.pick(rng, candidates)
        taken = _within(cell, np.asarray(candidates.any(axis=(1, 2))), wanted)
        idle = 0 if len(taken) else idle + 1
        if idle:
            continue
        wanted -= np.bincount(cell[taken], minlength=len(cells))
        drawn, names = drawn.take(taken), names.take(taken)
        more = proof_questions.further(
            rng,
            drawn,
            verdicts.take(taken),
            settings.attributes,
            settings.world,
            cells,
            shares,
            settings.asked(split) - 1,
        )
        theory_tokens = theory_text.render(rng, drawn, names, settings.wording)
        asked = theory_text.question(names, entity[taken], literal[taken], settings.wording)
        tokens.append((theory_tokens, theory_text.questions(names, more.entity, more.literal, settings.wording), asked))
        filled.append(cell[taken])
        others.append(more.cell)
        seen = np.concatenate([seen, fingerprints[taken]])
    if wanted.any():
        rare = cells[int(np.flatnonzero(wanted)[0])]
        raise UsageError(
            f"proofs: theories of {settings.facts} facts, {settings.rules} rules, {settings.entities} entities and "
            f"{settings.attributes} attributes hardly ever have a question of depth {rare.depth} answered "
            f"{settings.answers[rare.answer]!r}. Give more attributes, fewer facts, or smaller depths."
        )
    order = rng.permutation(count)
    cell, other = np.concatenate(filled)[order], np.concatenate(others)[order]
    theory_tokens, more_asked, asked = (np.concatenate(parts)[order] for parts in zip(*tokens, strict=True))
    kept = proof_questions.even(rng, cells, other)
    more_asked = np.where(kept[:, :, None], more_asked, 0).reshape(count, -1)
    answered = answer_of[cell]
    packed, lengths = theory_text.pack(
        np.column_stack([theory_tokens, more_asked, asked, theory_text.answer(answered)])
    )
    replies = np.column_stack([np.where(kept, answer_of[other], NOT_ASKED), answered])
    return ProofSamples(packed, lengths, answered, depth_of[cell], replies)


def _theories(
    rng: np.random.Generator, settings: ProofsSettings, split: Split, seen: NDArray[np.uint64]
) -> tuple[theories.Theories, theory_text.TheoryWords, NDArray[np.uint64], theories.Verdicts]:
    """New theories of a split without contradiction, their words, their fingerprints, and their consequences."""
    deepest = max(settings.depths(split))
    drawn = theories.draw(
        rng,
        _DRAWN_AT_ONCE,
        entities=settings.entities,
        attributes=settings.attributes,
        facts=settings.facts,
        rules=settings.rules,
        chain=deepest,
        negation=settings.world == "open",
    )
    names = theory_text.TheoryWords(rng, _DRAWN_AT_ONCE, settings.entities, settings.attributes, settings.words)
    fingerprints = theory_text.fingerprint(drawn, names)
    new = np.zeros(len(fingerprints), np.bool_)
    new[np.unique(fingerprints, return_index=True)[1]] = True
    kept = np.flatnonzero(
        new & belongs(fingerprints, split) & ~np.isin(fingerprints, seen) & ~theories.repeated_facts(drawn)
    )
    verdicts = theories.prove(drawn.take(kept), settings.entities, deepest)
    kept = kept[verdicts.consistent]
    return drawn.take(kept), names.take(kept), fingerprints[kept], verdicts.take(verdicts.consistent)


def _within(cell: NDArray[np.int64], usable: NDArray[np.bool_], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of usable samples, ascending: the first ones of each cell, up to the number that the cell needs."""
    indices = np.flatnonzero(usable)
    order = np.argsort(cell[indices], kind="stable")
    ranked = cell[indices][order]
    rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    return np.sort(indices[order[rank < wanted[ranked]]])
