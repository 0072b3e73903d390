"""The trained networks of an experiment on the test split, which nothing that was chosen has read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo import canonical
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.errors import EvaluationsFailedError
from evodevo.execution.base import Job
from evodevo.execution.jobs import run_jobs
from evodevo.experiments.comparison import compare_arms
from evodevo.runs.archive import Run
from evodevo.runs.composed import ComposedRun, StoppedError
from evodevo.runs.drive import create_executor
from evodevo.tasks.text.language import LanguageTask


def read_test_split(
    trained: Run, settings: EvolveSettings, tokens: int | None, tasks: Sequence[str], whole: ComposedRun
) -> dict[str, Any]:
    """Measure every finished training at its chosen learning rate.

    Args:
        trained: run of the trainings, with their weights.
        settings: text, device and workers.
        tokens: number of predicted tokens; None for all.
        tasks: files or folders of questions, answered too.
        whole: the run that the trainings and the test are stages of.

    Returns:
        ``results``: training -> its numbers (``tested.evaluate_test``); ``failed``: training -> reason;
        ``count_models``: bits per byte of count models on the same bytes.

    Raises:
        EvaluationsFailedError: no training has ended, or none of them could be measured.
        StoppedError: a second stop dropped the test.
    """
    networks = [one for row in compare_arms(trained).rows for one in row.trainings]
    if not networks:
        raise EvaluationsFailedError(f"no training of {trained.id} ended; see: evodevo show {trained.id}")
    language, training = settings.evaluation.language, settings.evaluation.training
    folder = whole.cache_folder
    task = LanguageTask.open(language, folder)
    common = {
        "language": language.model_dump(mode="json"),
        "task_key": task.key,
        "cache_folder": None if folder is None else str(folder),
        "blobs": trained.archive.store.blobs_address,
        "device": training.device,
        "precision": training.precision,
        "tokens": tokens,
        "tasks": list(tasks),
    }
    digests = {one.id: one.weights() for one in networks}
    jobs = [
        Job(digest, "backbone_test", canonical.dumps({**common, "weights": digest}).encode())
        for digest in dict.fromkeys(digests.values())
    ]
    with create_executor(settings.execution, ("torch", "networks")) as executor:
        answers = run_jobs(executor, jobs, dropped=lambda: whole.dropping)
    if len(answers) < len(jobs):
        raise StoppedError
    measured = {
        digest: canonical.loads(answer.payload, what="a test")
        for digest, answer in answers.items()
        if answer.payload is not None
    }
    results = {name: measured[digest] for name, digest in digests.items() if digest in measured}
    failed = {name: answers[digest].detail[-300:] for name, digest in digests.items() if digest not in measured}
    if not results:
        raise EvaluationsFailedError(f"no network could be tested: {next(iter(failed.values()), 'nothing ran')}")
    count_models = task.baselines("test", task.spread("test", tokens))
    return {"results": results, "failed": failed, "count_models": count_models}
