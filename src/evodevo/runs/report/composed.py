"""The page on a run that consists of other runs: its frame, and its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from xml.etree.ElementTree import Element

from evodevo.report.html import Content, cut, element, navigation, page, paragraph, section, table
from evodevo.runs.archive import Run


def composed_page(noun: str, run: Run, parts: Sequence[Element | None]) -> str:
    """One self-contained HTML page.

    Args:
        noun: name of its kind, with a capital.
        run: the run.
        parts: its sections; None is left out.
    """
    sections = [part for part in parts if part is not None]
    header = element(
        "header",
        element("h1", f"{noun} {cut(run.recipe)}"),
        paragraph(" · ".join((run.id, run.state, run.row.created_at)), classes="muted"),
        navigation(sections),
    )
    footer = element("footer", paragraph("One file, no scripts, no outside references. Made by evodevo."))
    return page(f"{noun} {cut(run.id)}", header, element("main", *sections), footer)


def stage_section(stages: Mapping[str, Mapping[str, str]], words: Callable[[str], str], *more: Element) -> Element:
    """The runs of the stages, and what each does."""
    rows: list[Sequence[Content]] = [
        [name, element("code", stage["run"]), stage["state"], words(name)] for name, stage in stages.items()
    ]
    return section(
        "stages",
        "Stages",
        paragraph("Each stage is a run of this store: show, front, report and resume take its id."),
        table(["stage", "run", "state", "what it does"], rows),
        *more,
    )
