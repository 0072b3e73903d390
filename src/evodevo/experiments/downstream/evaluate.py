"""Evaluation of one language model: on sets of questions, and on texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from evodevo.errors import DataError, UsageError
from evodevo.experiments.downstream.results import QuestionsResult, TextResult
from evodevo.networks.likelihood.documents import score_documents
from evodevo.networks.likelihood.options import Request, encode_pair, likelihoods, room_for
from evodevo.networks.likelihood.reader import Progress, Reader, no_progress, reader_of
from evodevo.tasks.questions.accuracy import Likelihood, credits
from evodevo.tasks.questions.files import read
from evodevo.tasks.questions.question import Question, QuestionSet
from evodevo.tasks.text.corpus import Corpus


def evaluate_tasks(
    model: Any,
    tokenizer: Any,
    tasks: Sequence[str | Path],
    *,
    limit: int | None = None,
    context_length: int | None = None,
    device: str = "cpu",
) -> dict[str, QuestionsResult]:
    """A language model on files of questions; STAR's Table 5.1 has ``result.score`` in its columns.

    Args:
        model: Trained network, as ``Individual.load`` returns it.
        tokenizer: Its tokenizer, as ``Individual.tokenizer`` returns it.
        tasks: Files or folders of questions; see ``tasks.questions.files``.
        limit: Largest number of questions of each set; None = all.
        context_length: Number of tokens that the model reads at once; None = the context length of its training.
        device: Name of the device: auto, cpu, cuda, cuda:N.

    Returns:
        Name of the set -> result, whose ``metrics`` are ``acc`` and ``acc_norm`` with intervals.

    Raises:
        DataError: A file that is missing or that holds something else; the message has file and line.
        UsageError: No language model, or two sets of one name.
    """
    reader = reader_of(model, tokenizer, context_length, device)
    return {asked.name: evaluate_questions(reader, asked) for asked in read_tasks(tasks, limit)}


def read_tasks(tasks: Sequence[str | Path], limit: int | None = None) -> list[QuestionSet]:
    """The sets of files and folders, each cut to ``limit`` questions.

    Raises:
        DataError: See ``tasks.questions.files.read``; also where two sets have one name.
    """
    found: dict[str, QuestionSet] = {}
    for asked in (asked for path in tasks for asked in read(path)):
        if asked.name in found and found[asked.name].source != asked.source:
            raise DataError(
                f"{found[asked.name].source} and {asked.source} are both called {asked.name!r}; rename one of them, or "
                "evaluate them one after the other."
            )
        found[asked.name] = asked.first(limit)
    return list(found.values())


def evaluate_questions(
    reader: Reader, asked: QuestionSet, *, cached: bool = True, progress: Progress = no_progress
) -> QuestionsResult:
    """The model's answers to a set of questions.

    Args:
        reader: Reader of the model.
        asked: The questions.
        cached: Whether options share the prefill of their context; the result is the same.
        progress: Function called with the numbers of finished and of all contexts.
    """
    requests, owners = [], []
    for question in asked.questions:
        for context, continuations in _by_context(question):
            requests.append(_request(reader, context, continuations))
            owners.append(len(continuations))
    found = likelihoods(reader, requests, cached=cached, progress=progress)
    answers, place = [], 0
    for question in asked.questions:
        options: list[Likelihood] = []
        while len(options) < len(question.options):
            options += found[place]
            place += 1
        answers.append(options)
    shortened = sum(len(request.context) > room_for(request, reader.length) for request in requests)
    perplexity = None
    if asked.kind == "continuation":
        tokens = sum(len(request.options[0]) for request in requests)
        mean = -math.fsum(options[0].log_likelihood for options in answers) / tokens
        perplexity = math.exp(mean) if mean < 700 else None
    return QuestionsResult.of(asked, credits(asked, answers), perplexity, shortened)


def evaluate_text(
    reader: Reader, texts: Corpus, name: str, *, stride: int | None = None, progress: Progress = no_progress
) -> TextResult:
    """The model's prediction of documents.

    Args:
        reader: Reader of the model.
        texts: The documents.
        name: Name in tables.
        stride: Number of tokens by which a window goes on; None = half of those read at once.
        progress: Function called with the numbers of finished and of all predictions.

    Raises:
        UsageError: An impossible stride.
    """
    found = score_documents(reader, texts.documents, stride=stride, progress=progress)
    each = np.column_stack([found.nats, found.bytes]).astype(np.float64)
    return TextResult.of(name, texts.digest, found.perplexity, int(found.tokens.sum()), each, found.lossless)


def _by_context(question: Question) -> Iterator[tuple[str, list[str]]]:
    """Each context with the continuations after it, in the order of the options."""
    for context, options in groupby(question.options, key=lambda option: option.context):
        yield context, [option.continuation for option in options]


def _request(reader: Reader, context: str, continuations: Sequence[str]) -> Request:
    pairs = [encode_pair(reader.tokenizer, context, continuation) for continuation in continuations]
    before = np.concatenate([np.asarray(reader.begin, np.int64), pairs[0][0]])
    if not len(before):
        raise UsageError(
            "the model's tokenizer has no token for the end of a document, so nothing stands before the first word; "
            "give questions with a context."
        )
    return Request(before, tuple(after for _, after in pairs))
