"""Runs that carry out a protocol: their stages are runs of their own in the same store, named in their events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.backbone.problem import BackboneProblem
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.backbone.runs import BackboneSlice
from evodevo.errors import NotFoundError, UsageError
from evodevo.runs.archive import Individual, Run
from evodevo.runs.composed import stage_runs
from evodevo.runs.results import Results, ResultTable
from evodevo.search.members import Listener


class ProtocolSlice(BackboneSlice):
    """See ``Slice``."""

    name = kind = "protocol"
    settings_class = ProtocolSettings
    composed = True

    def paths(self, settings: Any) -> dict[str, Any]:
        """Those of the search, and the files of questions."""
        from evodevo.runs.slices import absolute

        tasks = [absolute(task) for task in settings.protocol.tasks]
        return {**super().paths(settings), **({"protocol": {"tasks": tasks}} if tasks else {})}

    def problem(
        self, settings: Any, blobs: str | Path | None = None, cache_folder: Path | None = None
    ) -> BackboneProblem:
        """The problem of the search; files of questions are read once, so that a wrong one is refused at the start."""
        from evodevo.experiments.downstream.evaluate import read_tasks

        read_tasks(settings.protocol.tasks)
        if settings.protocol.finalists_from == "start" and not settings.study.start:
            raise UsageError(
                "this recipe trains architectures that you name; give one or more with --start: an individual, a "
                "genome, a named backbone or a file."
            )
        return super().problem(settings, blobs, cache_folder)

    def carry_out(
        self,
        run_id: str,
        settings: ProtocolSettings,
        *,
        store: str | Path,
        listener: Listener | None,
        on_start: Any,
        cache_folder: Path | None,
    ) -> None:
        from evodevo.backbone.protocol.stages import Protocol

        Protocol(run_id, settings, store=store, listener=listener, on_start=on_start, cache_folder=cache_folder).run()

    def start_depth(self, settings: ProtocolSettings) -> int | None:
        """See ``Slice``."""
        return settings.space.depth if settings.protocol.finalists_from == "start" else None

    def searched(self, run: Run) -> Run:
        """See ``Slice``."""
        if run.settings.protocol.finalists_from == "start":
            raise UsageError(f"{run.id} trains given architectures and searches nothing. See: evodevo show {run.id}")
        stages = stage_runs(run)
        if "search" not in stages:
            raise NotFoundError(f"the protocol {run.id} has not begun its search. See: evodevo show {run.id}")
        return stages["search"]

    def results(self, run: Run) -> Results:
        """See ``Slice``."""
        from evodevo.backbone.protocol.record import read_protocol
        from evodevo.backbone.protocol.text import cells, headings, stage_words
        from evodevo.runs.verdict import DOMINATES

        record = read_protocol(run)
        stages = [(name, stage["run"], stage["state"], stage_words(name)) for name, stage in record.stages.items()]
        columns = headings(record.rows, run.settings.evaluation.cost_length)
        return Results(
            (
                ResultTable(("stage", "run", "state", "what it does"), stages),
                ResultTable(columns, cells(record.rows), columns[1:-1]),
            ),
            record.sentences,
            DOMINATES if any(row.test is not None for row in record.rows) else "",
        )

    def data(self, run: Run) -> dict[str, Any]:
        from evodevo.backbone.protocol.record import read_protocol

        return read_protocol(run).to_json()

    def best(self, run: Run) -> list[Individual]:
        """The last trainings of the finalists, best on validation first; before there are any, the finalists."""
        from evodevo.backbone.protocol.record import read_protocol

        rows = [row for row in read_protocol(run).rows if row.role == "finalist"]
        trained = [row for row in rows if row.trainings and row.validation is not None]
        ordered = sorted(trained, key=lambda row: row.validation.mean if row.validation else 0.0)
        ids = [row.trainings[0] for row in ordered] or [row.individual for row in rows if row.individual]
        return [run.archive.individual(identity) for identity in ids]

    def report(self, run: Run) -> str:
        from evodevo.backbone.protocol.page import protocol_page

        return protocol_page(run)


PROTOCOL = ProtocolSlice()
