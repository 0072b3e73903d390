"""What a page prints as a paper's are numbers that the paper prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evodevo.experiments.recipe import PaperTable
from evodevo.growth.ablation.paper import PRINTED
from evodevo.h_model.recipes import paper_tables
from evodevo.h_model.recipes.pointer import PILOT
from evodevo.runs.recipe import RECIPES
from evodevo.runs.resolve import resolve

PAPERS = Path(__file__).parents[3] / "shared" / "papers"


def lines(name: str) -> list[list[str]]:
    """The cells of the lines of a paper's text."""
    path = PAPERS / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    return [[cell.strip() for cell in line.split("\t")] for line in path.read_text().splitlines()]


def numbers(cell: str) -> str:
    """A number as the papers write it."""
    return f"0{cell}" if re.fullmatch(r"\.\d+", cell) else cell


@pytest.mark.parametrize("table", [paper_tables.PROOFS, paper_tables.LANGUAGES, paper_tables.OHSUMED])
def test_tables_of_the_h_model(table: PaperTable) -> None:
    printed = lines("h-model.txt")
    assert not table.is_ours
    for row in table.rows:
        wanted = [numbers(cell) for cell in row[1:] if re.fullmatch(r"[\d.() ]+", cell)]
        assert len(wanted) >= 2 or "did not converge" in row
        compact = [cell.replace(" ", "") for cell in wanted]
        assert any(all(cell in line for cell in compact) for line in printed), row


def test_table_of_the_ablation() -> None:
    printed = lines("architect-thyself.txt")
    for name, row in PRINTED.items():
        wanted = {f"{row.auc:.4f}", f"{row.accuracy:.1f}", f"{row.f1:.4f}", row.episodes.replace("did not", "DNF")}
        wanted |= {row.parameters} if row.parameters else set()
        assert any(wanted <= set(line) for line in printed), name


def test_what_was_measured_here_is_no_papers() -> None:
    assert PILOT.is_ours
    for name in RECIPES:
        recipe = RECIPES.get(name)
        if "train" not in recipe.drivers or not name.startswith("h_model."):
            continue
        for table in resolve(name, driver="train", overrides={}).experiment.paper:  # type: ignore[attr-defined]
            assert table.is_ours or table.source.startswith("the paper's Table"), (name, table.source)
