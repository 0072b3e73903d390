"""Evaluation of the individuals of a store, with a record of every finished result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evodevo.errors import UsageError, unknown_name
from evodevo.experiments.downstream.evaluate import evaluate_questions, evaluate_text, read_tasks
from evodevo.experiments.downstream.harness import evaluate_with_harness, require_harness
from evodevo.experiments.downstream.results import QuestionsResult, Result, result_of
from evodevo.networks.likelihood.reader import Reader, reader_of
from evodevo.runs.archive import Individual
from evodevo.runs.downstream import Reading, find_recorded, record
from evodevo.tasks.questions.question import QuestionSet
from evodevo.tasks.text import corpus
from evodevo.tasks.text.corpus import Corpus

Listener = Callable[[str, dict[str, Any]], None]
"""Called with ``begin`` {"name", "number", "count"}, ``progress`` {"done", "whole"}, ``result`` {"name", "recorded"}
and ``unrecorded`` {"why"}."""

ENGINES = ("evodevo", "lm-eval")
RECALL = ("mqar", "noisy_recall", "induction", "selective_copying")


def _silent(kind: str, facts: dict[str, Any]) -> None:
    """Hear nothing."""


def evaluate(
    individual: Individual,
    *,
    tasks: Sequence[str | Path] = (),
    data: str | Path | None = None,
    recall: Sequence[str] = (),
    field: str = "text",
    limit: int | None = None,
    max_bytes: int | None = None,
    context_length: int | None = None,
    stride: int | None = None,
    engine: str = "evodevo",
    device: str = "cpu",
    again: bool = False,
    listener: Listener = _silent,
) -> list[Result]:
    """A trained language model of a store on questions and texts, in their order; each result is recorded at once.

    Results that are recorded already, of the same weights, data, length and stride, are taken from the record.

    Args:
        individual: Individual with weights.
        tasks: Files or folders of questions; see ``tasks.questions.files``.
        data: File or folder of text.
        recall: Tasks of recall (mqar, noisy_recall, induction, selective_copying); a network of the individual's
            architecture is trained on each from scratch, as where it is an objective. Not recorded.
        field: Key of a JSON line, or column of a parquet file, that has the text.
        limit: Largest number of questions of each set; None = all.
        max_bytes: Largest sum of bytes of the documents; None = all.
        context_length: Number of tokens that the model reads at once; None = the context length of its training.
        stride: Number of tokens by which a window over a text goes on; None = half of the context.
        engine: Name of the engine: ``evodevo``, or ``lm-eval`` for EleutherAI's harness on the same questions.
        device: Name of the device: auto, cpu, cuda, cuda:N.
        again: Whether recorded results are measured again.
        listener: Function called with each event and its facts.

    Raises:
        UsageError: Nothing to evaluate on, an unknown engine, an impossible length or stride, or no language model.
        DataError: A file that is missing or that holds something else; the message has file and line.
        MissingExtraError: The engine is not installed.
        NotFoundError: No weights were kept.
    """
    if not tasks and data is None and not recall:
        raise UsageError(
            "there is nothing to evaluate on; give files of questions with --tasks FILE, text with --data PATH, or a "
            "task of recall with --recall NAME."
        )
    for name in recall:
        if name not in RECALL:
            raise unknown_name("task of recall", name, RECALL)
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}.")
    if engine == "lm-eval":
        require_harness()
    whole: list[QuestionSet | Corpus] = [*read_tasks(tasks, limit)]
    if data is not None:
        whole.append(corpus.read(data, field=field, max_bytes=max_bytes))
    if not whole:
        return [_recall(individual, name, device, listener) for name in recall]
    reader = reader_of(individual.load(), individual.tokenizer(), context_length, device)
    step = max(1, reader.length // 2) if stride is None else stride
    weights = individual.weights()
    found: list[Result] = []
    for number, part in enumerate(whole, start=1):
        texts = isinstance(part, Corpus)
        name = Path(part.source).name if isinstance(part, Corpus) else part.name
        reading = Reading(weights, reader.length, step if texts else None, "evodevo" if texts else engine)
        listener("begin", {"name": name, "number": number, "count": len(whole)})
        kept = None if again else find_recorded(individual, reading, part.digest)
        if kept is not None:
            found.append(result_of(kept))
        else:
            found.append(_measure(reader, part, name, step, reading.engine, listener))
            why = record(individual, reading, found[-1].to_json())
            if why is not None:
                listener("unrecorded", {"why": why})
        listener("result", {"name": name, "recorded": kept is not None})
    return found + [_recall(individual, name, device, listener) for name in recall]


def _recall(individual: Individual, task: str, device: str, listener: Listener) -> QuestionsResult:
    listener("begin", {"name": task, "number": 1, "count": 1})
    asked = individual.run.slice.recall(individual, task, device)
    listener("result", {"name": task, "recorded": False})
    return QuestionsResult(task, asked.digest, asked.guess, "acc", {"acc": asked.accuracy})


def _measure(
    reader: Reader, part: QuestionSet | Corpus, name: str, stride: int, engine: str, listener: Listener
) -> Result:
    def progress(done: int, whole: int) -> None:
        listener("progress", {"done": done, "whole": whole})

    if isinstance(part, Corpus):
        return evaluate_text(reader, part, name, stride=stride, progress=progress)
    if engine == "lm-eval":
        return evaluate_with_harness(reader, part)
    return evaluate_questions(reader, part, progress=progress)
