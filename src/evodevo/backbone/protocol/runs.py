"""Runs that carry out a protocol: their stages are runs of their own in the same store, named in their events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.backbone.runs import BackboneSlice
from evodevo.runs.archive import PROTOCOL as KIND
from evodevo.runs.archive import Run
from evodevo.search.study import Listener


class ProtocolSlice(BackboneSlice):
    """See ``Slice``."""

    name = kind = KIND
    settings_class = ProtocolSettings
    composed = True

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

        Protocol(run_id, settings, store, listener, on_start, cache_folder).run()

    def data(self, run: Run) -> dict[str, Any]:
        from evodevo.backbone.protocol.record import read_protocol

        return read_protocol(run).to_json()

    def report(self, run: Run) -> str:
        from evodevo.backbone.protocol.page import protocol_page

        return protocol_page(run)


PROTOCOL = ProtocolSlice()
