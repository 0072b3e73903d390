"""EleutherAI's lm-evaluation-harness on a model of ours and on local files, without a network.

The harness gets the questions as it reads its own tasks: a JSON file and the settings of a task; the model is an ``LM``
of its interface. Its metrics are its own: ``acc`` gives ties to the first option, ``acc_norm`` divides by characters.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evodevo.errors import UsageError, missing_extra
from evodevo.experiments.downstream.results import QuestionsResult
from evodevo.networks.continuation import generate
from evodevo.networks.likelihood.documents import score_documents
from evodevo.networks.likelihood.options import Request, encode_pair, likelihoods
from evodevo.networks.likelihood.reader import Reader
from evodevo.networks.sampling import SamplingSettings
from evodevo.scratch import scratch
from evodevo.tasks.questions.question import QuestionSet

_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_MOST_WRITTEN = 256


def require_harness() -> None:
    """Check that the harness is installed; it is not imported.

    Raises:
        MissingExtraError: It is not; the message has the command that installs it.
    """
    if importlib.util.find_spec("lm_eval") is None:
        raise missing_extra("lm-eval", "eval", "the engine lm-eval")


def pair_likelihoods(reader: Reader, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
    """(log-likelihood in nats, whether greedy) of each continuation after its context, in order.

    Adjacent pairs of one context share its prefill: the harness requests the options of a question in order.
    """
    requests = []
    for context, group in groupby(pairs, key=lambda pair: pair[0]):
        encoded = [encode_pair(reader.tokenizer, context, continuation) for _, continuation in group]
        before = np.concatenate([np.asarray(reader.begin, np.int64), encoded[0][0]])
        if not len(before):
            raise UsageError("the model's tokenizer has no token for the end of a document; no text can begin.")
        requests.append(Request(before, tuple(after for _, after in encoded)))
    return [(found.log_likelihood, found.greedy) for options in likelihoods(reader, requests) for found in options]


def text_likelihood(reader: Reader, text: str) -> float:
    """Log-likelihood of a whole text in nats."""
    return -float(score_documents(reader, [text.encode("utf-8")]).nats.sum())


def write_until(reader: Reader, context: str, options: Mapping[str, Any]) -> str:
    """The text of greedy decoding after a context, up to the first of the ``until`` texts."""
    until = options.get("until") or []
    ends = [until] if isinstance(until, str) else list(until)
    count = int(options.get("max_gen_toks", _MOST_WRITTEN))
    ids = np.concatenate([np.asarray(reader.begin, np.int64), reader.tokenizer.encode(context)])[-reader.length :]
    written = generate(
        reader.model, reader.precision.tensor(ids)[None], count, sampling=SamplingSettings(temperature=0)
    )
    text = reader.tokenizer.decode(written[0].cpu().numpy())
    for end in ends:
        text = text.split(end)[0] if end else text
    return text


def harness_model(reader: Reader) -> Any:
    """The model as an ``lm_eval.api.model.LM``, for ``simple_evaluate(model=…)``.

    Raises:
        MissingExtraError: The harness is not installed.
    """
    require_harness()
    from lm_eval.api.model import LM

    class ReaderLM(LM):  # type: ignore[misc]
        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            return pair_likelihoods(reader, [request.args for request in requests])

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            return [text_likelihood(reader, request.args[0]) for request in requests]

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [write_until(reader, *request.args) for request in requests]

    return ReaderLM()


def harness_task(asked: QuestionSet, file: Path) -> dict[str, Any]:
    """The settings of the harness's task for a set, whose rows ``harness_rows`` gives.

    Args:
        asked: The questions.
        file: JSON lines of the rows.
    """
    chooses = asked.kind == "choice"
    metrics = ("acc", "acc_norm") if chooses else ("acc", "perplexity")
    return {
        "task": asked.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(file)}, "cache_dir": str(file.parent / "cache")},
        "test_split": "test",
        "output_type": "multiple_choice" if chooses else "loglikelihood",
        "doc_to_text": "context",
        "doc_to_target": "gold" if chooses else "continuation",
        **({"doc_to_choice": "choices"} if chooses else {}),
        "target_delimiter": _delimiter(asked),
        "num_fewshot": 0,
        "metric_list": [
            {
                "metric": name,
                "aggregation": "perplexity" if name == "perplexity" else "mean",
                "higher_is_better": name != "perplexity",
            }
            for name in metrics
        ],
        "metadata": {"version": 1},
    }


def harness_rows(asked: QuestionSet) -> list[dict[str, Any]]:
    """The questions as the harness reads them: context, choices and gold, or context and continuation.

    Raises:
        UsageError: The options of a question have different contexts.
    """
    cut = len(_delimiter(asked))
    rows: list[dict[str, Any]] = []
    for question in asked.questions:
        contexts = {option.context for option in question.options}
        if len(contexts) > 1:
            raise UsageError(
                f"{asked.source} asks after which context a text follows, which the harness reads from no JSON file; "
                "leave --engine out."
            )
        texts = [option.continuation[cut:] for option in question.options]
        row = {"choices": texts, "gold": question.answer} if asked.kind == "choice" else {"continuation": texts[0]}
        rows.append({"context": contexts.pop(), **row})
    return rows


def evaluate_with_harness(reader: Reader, asked: QuestionSet) -> QuestionsResult:
    """The harness's answers to a set of questions.

    Raises:
        MissingExtraError: It is not installed.
        UsageError: See ``harness_rows``.
    """
    model, rows = harness_model(reader), harness_rows(asked)
    with scratch() as folder, _offline():
        import lm_eval
        from lm_eval.tasks import TaskManager

        file = folder / "questions.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        with torch.no_grad():
            found = lm_eval.simple_evaluate(
                model=model,
                tasks=[harness_task(asked, file)],
                task_manager=TaskManager(include_defaults=False),
                bootstrap_iters=0,
                log_samples=True,
            )
    return read_harness(asked, found)


def read_harness(asked: QuestionSet, found: Mapping[str, Any]) -> QuestionsResult:
    """The result of what ``simple_evaluate`` returned for a set."""
    samples = sorted(found["samples"][asked.name], key=lambda sample: sample["doc_id"])
    names = ("acc", "acc_norm") if asked.kind == "choice" else ("acc",)
    right = {name: np.asarray([float(sample[name]) for sample in samples]) for name in names}
    return QuestionsResult.of(asked, right, found["results"][asked.name].get("perplexity,none"))


def _delimiter(asked: QuestionSet) -> str:
    """The white space before every option, which the harness does not count as a part of it."""
    spaced = all(option.continuation.startswith(" ") for question in asked.questions for option in question.options)
    return " " if spaced else ""


@contextmanager
def _offline() -> Iterator[None]:
    """The Hugging Face libraries read these when they are imported."""
    before = {name: os.environ.get(name) for name in _OFFLINE}
    os.environ.update(_OFFLINE)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
