"""Every row of ``EXPORTERS`` keeps the promises of a format."""

from __future__ import annotations

from evodevo.export.base import EXPORTERS
from evodevo.testing.exporters import ExporterTests

for _name in EXPORTERS:
    globals()[f"Test_{_name}"] = type(f"Test_{_name}", (ExporterTests,), {"exporter": EXPORTERS.get(_name)})
