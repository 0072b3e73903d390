"""Every row of ``EXPORTERS`` keeps the promises of a format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from evodevo.export.base import EXPORTERS, ExportSubject, Images, Logits
from evodevo.export.folder import Export, write_export
from evodevo.export.torch_export import TorchExport
from evodevo.testing.exporters import ExporterTests


def in_this_process(self: TorchExport, folder: Path, probes: Sequence[Images]) -> list[Logits]:
    program = torch.export.load(folder / self.file).module()
    with torch.no_grad():
        return [program(torch.from_numpy(one)).numpy() for one in probes]


class OnceInAFreshProcess(ExporterTests):
    """What is written is verified in this process; a law asks a fresh one."""

    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, whole: ExportSubject, tmp_path_factory: pytest.TempPathFactory) -> Export:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TorchExport, "ask", in_this_process)
            return write_export(cls.exporter, whole, tmp_path_factory.mktemp("export") / "model")


for _name in EXPORTERS:
    globals()[f"Test_{_name}"] = type(f"Test_{_name}", (OnceInAFreshProcess,), {"exporter": EXPORTERS.get(_name)})
