"""The table at the end of ``evodevo.fit``: every candidate with its scores, and one sentence about the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from evodevo.settings import Settings


class Row(Settings):
    """A candidate.

    Attributes:
        name: Name.
        kind: plain, network or ensemble.
        score: Metric on held out samples, 0 to 1.
        log_loss: Log-loss on held out samples, in nats.
        seconds: Seconds of its training, all folds and the final training together.
        note: Remark, for example that it was stopped; empty where there is none.
        members: Of an ensemble, the weight of each member.
    """

    name: str
    kind: str
    score: float
    log_loss: float
    seconds: float
    note: str = ""
    members: dict[str, float] = Field(default={})


@dataclass(frozen=True)
class Judged:
    """A candidate on test rows.

    Attributes:
        score, low, high: Metric and its 95 % interval.
        behind, behind_low, behind_high: The chosen model's metric minus this one's, with its 95 % interval.
    """

    score: float
    low: float
    high: float
    behind: float
    behind_low: float
    behind_high: float


@dataclass(frozen=True)
class Leaderboard:
    """Candidates, best first by validation; the first one is the model.

    Attributes:
        metric: Name of the metric.
        rows: Candidates.
        held: Number of held out samples by which they were ranked.
        test: Scores on test rows by name; empty where there are none.
        tested: Number of test rows.
        left_out: Candidates that were not judged, with the reason.
    """

    metric: str
    rows: tuple[Row, ...]
    held: int
    test: dict[str, Judged]
    tested: int = 0
    left_out: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def verdict(self) -> str:
        """One sentence: which candidate is the model, and what its kind and the others had."""
        best = self.rows[0]
        words = [
            f"{best.name} is best of {len(self.rows)} on {self.held:,} held out samples: {self.metric} {best.score:.4f}"
        ]
        rivals = [next((row for row in self.rows[1:] if row.kind == kind), None) for kind in ("plain", "network")]
        others = [
            f"best {row.kind} model {row.score:.4f} ({row.name})" for row in rivals if row and row.kind != best.kind
        ]
        if not others and len(self.rows) > 1:
            others = [f"next {self.rows[1].score:.4f} ({self.rows[1].name})"]
        if best.members:
            parts = ", ".join(f"{weight:.0%} {name}" for name, weight in best.members.items())
            words.append(f"it is the weighted mean of {parts}")
        words += others
        if best.name in self.test:
            judged = self.test[best.name]
            words.append(f"on {self.tested:,} test rows {judged.score:.4f} ({judged.low:.4f} to {judged.high:.4f})")
        return "; ".join(words) + "."

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows as text."""
        heads = ["model", "kind", f"validation {self.metric}", "log-loss", "seconds"]
        if self.test:
            heads += [f"test {self.metric}", "95 %", "chosen - this"]
        table = []
        for row in self.rows:
            cells = [row.name, row.kind, f"{row.score:.4f}", f"{row.log_loss:.4f}", f"{row.seconds:.1f}"]
            if self.test:
                judged = self.test.get(row.name)
                if judged is None:
                    cells += ["", "", ""]
                else:
                    cells += [f"{judged.score:.4f}", f"{judged.low:.4f} to {judged.high:.4f}"]
                    own = row is self.rows[0]
                    gap = f"{judged.behind:+.4f} ({judged.behind_low:+.4f} to {judged.behind_high:+.4f})"
                    cells.append("" if own else gap)
            table.append(tuple(cells))
        return tuple(heads), table

    def to_json(self) -> dict[str, Any]:
        """All of it, for JSON."""
        rows = []
        for row in self.rows:
            found = row.model_dump(mode="json")
            judged = self.test.get(row.name)
            rows.append({**found, "test": None if judged is None else vars(judged)})
        return {
            "metric": self.metric,
            "held": self.held,
            "tested": self.tested,
            "chosen": self.rows[0].name,
            "rows": rows,
            "left_out": list(self.left_out),
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        heads, table = self.cells()
        widths = [max(len(row[place]) for row in [heads, *table]) for place in range(len(heads))]
        lines = [_line(row, widths) for row in [heads, *table]]
        more = [f"left out: {reason}" for reason in self.left_out]
        return "\n".join([*lines, *more, self.verdict])

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        from html import escape

        heads, table = self.cells()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(self.verdict)}</p>"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, kind, *numbers = zip(cells, widths, strict=True)
    texts = [cell.ljust(width) for cell, width in (first, kind)] + [cell.rjust(width) for cell, width in numbers]
    return "  ".join(texts).rstrip()
