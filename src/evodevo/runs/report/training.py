"""The section on the training of a search: tokens by rung, and the correlation of a rung with the end."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from evodevo.report.charts.numbers import show
from evodevo.report.html import cut, paragraph, section, table
from evodevo.runs.account import TrainingAccount, training_account
from evodevo.runs.report.view import ReportView


def token_section(view: ReportView) -> Element | None:
    """None where the evaluations count no tokens."""
    account = training_account(view.run)
    words = account.words()
    if not words:
        return None
    content = [paragraph(words[0] + ".")]
    if len(account.rungs) > 1:
        content.append(_rungs(view, account))
        content.append(
            paragraph(
                "A candidate that stops keeps the scores of its rung, which are not comparable with those of the whole "
                "budget: the front and the hypervolume are of individuals that were trained to the end. Correlations "
                "are over those that went on, the better ones at each rung, which lowers them."
            )
        )
    if account.inherited:
        content.append(
            paragraph(
                f"{words[-1]}. Their scores are those of weights that were trained before, in their parents; the "
                "confirmations with fresh seeds begin from scratch."
            )
        )
    return section("tokens", "Training tokens", *content)


def _rungs(view: ReportView, account: TrainingAccount) -> Element:
    rows = [
        [
            f"{rung.share:.0%}",
            f"{rung.reached:,}",
            f"{rung.failed:,}",
            f"{rung.stopped:,}",
            f"{rung.tokens:,}",
            str(rung.compared),
            *(show(rung.correlation.get(goal.name), digits=2) for goal in view.goals),
        ]
        for rung in account.rungs
    ]
    headings = ["budget", "reached", "failed", "stopped", "tokens", "compared"]
    headings += [f"rank correlation with the end: {cut(goal.name, 60)}" for goal in view.goals]
    return table(headings, rows, range(1, len(headings)), "Rungs of the search; the whole budget is the last.")
