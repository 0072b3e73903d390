"""The section on operations of variation: how often each was drawn, and what it was worth."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.report.html import Content, cut, element, paragraph, section, table
from evodevo.runs.operations import DEFINITION, Worth, variation_record
from evodevo.runs.report.view import LISTED, ReportView

HEADINGS = ("operation", "children", "share", "mean rank change", "better than its parents", "failed")


def operation_section(view: ReportView) -> Element | None:
    record = variation_record(view.run)
    if not record.births:
        return None
    content: list[Content] = [table(HEADINGS, worth_rows(record.births), range(1, 6), "Births with parents")]
    if record.recorded and record.changed is not None and record.redrawn is not None:
        content += [
            paragraph(
                f"{record.changed:.1%} of {record.recorded:,} mutations changed the network. {record.redrawn:.1%} were "
                f"drawn more than once, because a draw gave the same network ({record.draws:.2f} draws on average)."
            ),
            table(HEADINGS, worth_rows(record.operations), range(1, 6), "Operations of the mutations"),
        ]
    return section("operations", "Operations", *content, paragraph(DEFINITION, classes="muted"))


def worth_rows(rows: Sequence[Worth]) -> list[list[Content]]:
    """Rows of a table for people; a mean with its standard error."""
    return [
        [
            element("code", cut(row.name, 60)),
            str(row.children),
            f"{row.share:.1%}",
            change_text(row),
            "" if row.better is None else f"{row.better:.0%}",
            str(row.failed),
        ]
        for row in rows[:LISTED]
    ]


def change_text(row: Worth) -> str:
    """The mean rank change with its sign, and its standard error where there is one."""
    if row.change is None:
        return ""
    return f"{row.change:+.2f}" + ("" if row.error is None else f" ± {row.error:.2f}")
