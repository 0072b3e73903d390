"""The page of a recipe of multitask systems: accuracy over cycles (Fig. 3), tables, and limits of the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from evodevo.multitask.diagrams.system.cycles import CycleCurve, means, system_cycles
from evodevo.report.html import cut, element, figure, page, section, table
from evodevo.report.word_tables import TextTable, words_table


def recipe_page(
    title: str,
    about: str,
    tables: Mapping[str, TextTable],
    validation: Sequence[CycleCurve],
    test: Sequence[CycleCurve],
    notes: Sequence[str],
    *,
    over: str = "copies",
    references: Sequence[tuple[str, float]] = (),
    test_references: Sequence[tuple[str, float]] = (),
) -> str:
    """One self-contained file.

    Args:
        title: title of the page.
        about: sentence below the title.
        tables: title -> texts.
        validation, test: accuracies over cycles.
        notes: sentences.
        over: noun for the repetitions, in the plural.
        references, test_references: (name, accuracy), drawn as lines.
    """
    header = element("header", element("h1", cut(title, 160)), element("p", cut(about, 400), classes="muted"))
    parts: list[Element] = []
    if any(means(arm.courses) for arm in validation):
        svg = system_cycles(validation, test, over=over, references=references, test_references=test_references)
        rows = [_row(split, arm) for split, arms in (("validation", validation), ("test", test)) for arm in arms]
        numbers = table(("", "", "cycles", "first %", "last %", "error"), rows, (2, 3, 4, 5))
        caption = "Accuracy of what was published after each cycle; test data chose nothing."
        parts.append(section("cycles", "Cycles", figure(svg, caption, numbers, classes="fits")))
    parts += [
        section(f"table-{place}", cut(name, 200), words_table(each_table))
        for place, (name, each_table) in enumerate(tables.items())
    ]
    parts.append(section("notes", "Notes", element("ul", *(element("li", cut(note, 600)) for note in notes))))
    return page(cut(title, 160), header, element("main", *parts))


def _row(split: str, arm: CycleCurve) -> list[str]:
    points = means(arm.courses)
    if not points:
        return [split, cut(arm.name, 120), "0", "", "", ""]
    error = points[-1].error
    last = "" if error is None else f"{100 * error:.2f}"
    return [
        split,
        cut(arm.name, 120),
        str(len(points)),
        f"{100 * points[0].mean:.1f}",
        f"{100 * points[-1].mean:.1f}",
        last,
    ]
