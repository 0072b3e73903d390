"""The networks of NAS-Bench-Macro as genomes, and a table with the answer for each of them.

Su et al., "Prioritized architecture sampling with Monto-Carlo tree search", 2021: eight layers, one of three blocks
each, 6,561 networks. Two objectives to minimise, the mean error on CIFAR-10 with 0 at the best and 1 at the worst
network, and FLOPs over their largest number.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from evodevo.errors import DataError, NotFoundError
from evodevo.testing.tabular import AnswerTable, CellSpace


class MacroSpace(CellSpace):
    """Eight genes from 0 to 2, one block for each layer; operators as those of ``CellSpace``."""

    name = "nas-bench-macro"
    genes = 8
    values = 3


class MacroTable(AnswerTable):
    """(Error from 0 to 1, FLOPs over the largest) of every network.

    Args:
        path: ``table.csv.gz`` with the columns arch (eight digits), mean_acc (percent) and flops.

    Raises:
        NotFoundError: no such file.
        DataError: another table.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise NotFoundError(f"no table of NAS-Bench-Macro at {path}.")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        space = MacroSpace()
        if len(rows) != space.values**space.genes or not {"arch", "mean_acc", "flops"} <= set(rows[0]):
            raise DataError(f"{path} is not the NAS-Bench-Macro table with its {space.values**space.genes} networks.")
        errors = 1 - np.array([float(row["mean_acc"]) for row in rows]) / 100
        flops = np.array([float(row["flops"]) for row in rows])
        scaled = (errors - errors.min()) / (errors.max() - errors.min())
        genomes = [space.parse(row["arch"].zfill(space.genes)) for row in rows]
        shares = (flops / flops.max()).tolist()
        super().__init__(dict(zip(genomes, zip(scaled.tolist(), shares, strict=True), strict=True)))
