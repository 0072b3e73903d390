"""The section on what individuals scored on questions and texts after their training."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from evodevo.report.html import Content, cut, element, paragraph, section, table
from evodevo.runs.downstream import lines, recorded
from evodevo.runs.report.view import ReportView, short


def downstream_section(view: ReportView) -> Element | None:
    """A table with a row for each result; None where ``evodevo evaluate`` has measured nothing."""
    found = recorded(view.run)
    if not found:
        return None
    rows: list[list[Content]] = []
    for one in [*view.baselines, *view.front, *view.individuals]:
        for line in lines(found.pop(one.id, [])):
            name = cut(one.name) if one in view.baselines else element("code", short(one.id))
            rows.append([name, cut(line.data), line.metric, line.words(), f"{line.chance:.3f}", line.amount])
    shown = rows[: view.detail.rows]
    caption = f"Results of single sets{view.listed(len(shown), len(rows))}"
    words = (
        "Trained models on questions and texts, with the 95 % interval over questions or documents, which covers no "
        "spread over seeds. acc: the likeliest option; acc_norm: the likeliest per byte. Chance is a uniform draw."
    )
    headings = ["individual", "data", "metric", "score", "chance", "of"]
    return section("downstream", "Questions and texts", paragraph(words), table(headings, shown, (3, 4, 5), caption))
