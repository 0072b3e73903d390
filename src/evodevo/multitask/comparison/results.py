"""The result of a recipe of multitask systems: one document, tables, a page, a CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from xml.etree.ElementTree import Element

from evodevo.multitask.diagrams.system.cycles import CycleCurve, means, system_cycles
from evodevo.report.comma_separated import comma_separated
from evodevo.report.html import element, figure, page, section, table
from evodevo.report.svg import whole
from evodevo.report.word_tables import TextTable, words_table

Cell = str | int | float | None


@dataclass(frozen=True)
class RecipeResult:
    """The result of a recipe.

    Attributes:
        recipe, size: Which.
        label: How the names of its systems begin.
        state: ``interrupted`` goes on with the same call.
        document: All results, JSON; of an interrupted one what names it.
        tables: Title -> table for people; none of an interrupted one.
        csv: One line per variant, copy and task.
        notes: Sentences: what is compared, and limits of the numbers.
        validation, test: Quality on validation and accuracy on test over cycles, one curve per variant.
        references: Name -> quality on validation and accuracy on test, from which all curves begin.
        chosen_by: Name of that quality.
    """

    recipe: str
    size: str
    label: str
    state: Literal["finished", "interrupted"]
    document: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, TextTable] = field(default_factory=dict)
    csv: str = ""
    notes: tuple[str, ...] = ()
    validation: Sequence[CycleCurve] = ()
    test: Sequence[CycleCurve] = ()
    references: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    chosen_by: str = "accuracy"

    @property
    def page(self) -> str:
        """One self-contained HTML file: accuracy over cycles (Fig. 3), tables, and limits of the numbers."""
        title = whole(f"{self.recipe} {self.size}")
        about = element("p", whole(f"systems {self.label}.*"), classes="muted")
        parts: list[Element] = []
        if any(means(one.courses) for one in self.validation):
            svg = system_cycles(
                self.validation,
                self.test,
                over="copies",
                references=[(name, pair[0]) for name, pair in self.references.items()],
                test_references=[(name, pair[1]) for name, pair in self.references.items()],
                chosen_by=self.chosen_by,
            )
            splits = (("validation", self.validation), ("test", self.test))
            rows = [_ends(split, one) for split, curves in splits for one in curves]
            numbers = table(("", "", "cycles", "first %", "last %", "error"), rows, (2, 3, 4, 5))
            caption = "What was published after each cycle; test data chose nothing."
            parts.append(section("cycles", "Cycles", figure(svg, caption, numbers, classes="fits")))
        parts += [
            section(f"table-{place}", whole(name), words_table(one))
            for place, (name, one) in enumerate(self.tables.items())
        ]
        parts.append(section("notes", "Notes", element("ul", *(element("li", whole(one)) for one in self.notes))))
        return page(title, element("header", element("h1", title), about), element("main", *parts))


def _ends(split: str, curve: CycleCurve) -> list[str]:
    cycles, name = means(curve.courses), whole(curve.name)
    if not cycles:
        return [split, name, "0", "", "", ""]
    first, last = cycles[0], cycles[-1]
    error = "" if last.error is None else f"{100 * last.error:.2f}"
    return [split, name, str(len(cycles)), percent(first.mean), percent(last.mean), error]


def courses(validation: Sequence[CycleCurve], test: Sequence[CycleCurve]) -> dict[str, dict[str, Any]]:
    """Name of a curve -> split -> copy -> cycle -> accuracy, as JSON."""
    return {
        one.name: {"validation": list(one.courses), "test": list(other.courses)}
        for one, other in zip(validation, test, strict=True)
    }


def to_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> str:
    """A header, and one line per row; what is not known is empty."""
    return comma_separated(columns, ([row[name] for name in columns] for row in rows))


def percent(value: float | None) -> str:
    """A share with one decimal."""
    return "-" if value is None else f"{100 * value:.1f}"


def points(value: float | None) -> str:
    """A difference of shares, signed."""
    return "-" if value is None else f"{100 * value:+.1f}"
