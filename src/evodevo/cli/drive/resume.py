"""``evodevo resume``: continue a run."""

from __future__ import annotations

from evodevo.cli.ended import show_end
from evodevo.cli.look.front import show_front
from evodevo.cli.options import (
    DEFAULT_STORE,
    Assignments,
    BlobsAddress,
    ClusterAddress,
    Events,
    ExecutorName,
    FailedShare,
    Generations,
    RunName,
    StoreFolder,
    Workers,
    execution_flags,
)
from evodevo.cli.overrides import overrides
from evodevo.cli.protocols import show_composed
from evodevo.cli.running import carry_out, keep_blobs_at


def resume(
    run: RunName = "last",
    generations: Generations = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    address: ClusterAddress = None,
    max_failed_share: FailedShare = None,
    store: StoreFolder = DEFAULT_STORE,
    blobs: BlobsAddress = None,
    set: Assignments = None,
    json: Events = False,
) -> None:
    """Continue a run that was interrupted or killed, or extend a finished one.

    Finished work is not repeated. Only budget, workers and retention may change.
    """
    flags = {
        "study.generations": generations,
        "study.max_failed_share": max_failed_share,
        **execution_flags(workers, executor, address),
    }
    changes = overrides(None, set or [], flags)
    from evodevo.runs.evolve import resume as resume_run

    keep_blobs_at(store, blobs)
    ended = carry_out(
        lambda listener, begin: resume_run(run, overrides=changes, store=store, listener=listener, on_start=begin),
        store=store,
        json=json,
    )
    with ended.archive:
        if json:
            return
        if ended.is_composed:
            show_composed(ended)
        elif ended.is_experiment:
            show_end(ended)
        else:
            show_front(ended)
