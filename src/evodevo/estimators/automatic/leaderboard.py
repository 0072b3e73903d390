"""The table at the end of ``evodevo.fit``: every candidate with its scores, and one sentence about the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import Field

from evodevo.settings import Settings


class Row(Settings):
    """A candidate.

    Attributes:
        name: Name.
        kind: plain, network or ensemble.
        score: Metric on held out samples.
        log_loss: Log-loss on held out samples, in nats; None of a quantity.
        further: Of a quantity, further metrics on held out samples by name.
        seconds: Seconds of its training, all folds and the final training together.
        note: Remark, for example that it was stopped; empty where there is none.
        members: Of an ensemble, the weight of each member.
    """

    name: str
    kind: str
    score: float
    log_loss: float | None
    further: dict[str, float] = Field(default={})
    seconds: float
    note: str = ""
    members: dict[str, float] = Field(default={})


@dataclass(frozen=True)
class Judged:
    """A candidate on test rows.

    Attributes:
        score, low, high: Metric and its 95 % interval.
        behind, behind_low, behind_high: The chosen model's metric minus this one's, with its 95 % interval.
        further: Of a quantity, the same of further metrics by name.
    """

    score: float
    low: float
    high: float
    behind: float
    behind_low: float
    behind_high: float
    further: Mapping[str, Judged] = field(default_factory=dict)


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
            f"{best.name} is best of {len(self.rows)} on {self.held:,} held out samples: {self.metric} "
            f"{_text(best.score)}" + _also({name: _text(value) for name, value in best.further.items()})
        ]
        rivals = [next((row for row in self.rows[1:] if row.kind == kind), None) for kind in ("plain", "network")]
        others = [
            f"best {row.kind} model {_text(row.score)} ({row.name})" for row in rivals if row and row.kind != best.kind
        ]
        if not others and len(self.rows) > 1:
            others = [f"next {_text(self.rows[1].score)} ({self.rows[1].name})"]
        if best.members:
            parts = ", ".join(f"{weight:.0%} {name}" for name, weight in best.members.items())
            words.append(f"it is the weighted mean of {parts}")
        words += others
        if best.name in self.test:
            judged = self.test[best.name]
            also = _also({name: _interval(other) for name, other in judged.further.items()})
            words.append(f"on {self.tested:,} test rows {_interval(judged)}{also}")
        return "; ".join(words) + "."

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows as text."""
        further = list(self.rows[0].further)
        # With test rows the table is wide enough; then further metrics are those of the test rows alone.
        beside = (further if not self.test else []) or ([] if further else ["log-loss"])
        heads = ["model", "kind", f"validation {self.metric}", *beside, "seconds"]
        if self.test:
            heads += [f"test {self.metric}", "95 %", "chosen - this"]
            heads += [f"test {name} (95 %)" for name in further]
        table = []
        for row in self.rows:
            known = {**row.further, "log-loss": row.log_loss or 0.0}
            losses = [_text(known[name]) for name in beside]
            cells = [row.name, row.kind, _text(row.score), *losses, f"{row.seconds:.1f}"]
            if self.test:
                judged = self.test.get(row.name)
                if judged is None:
                    cells += [""] * (3 + len(row.further))
                else:
                    cells += [_text(judged.score), f"{_text(judged.low)} to {_text(judged.high)}"]
                    own = row is self.rows[0]
                    low, high = (_text(value, "+") for value in (judged.behind_low, judged.behind_high))
                    cells.append("" if own else f"{_text(judged.behind, '+')} ({low} to {high})")
                    cells += [_interval(other) for other in judged.further.values()]
            table.append(tuple(cells))
        return tuple(heads), table

    def to_json(self) -> dict[str, Any]:
        """All of it, for JSON."""
        rows = []
        for row in self.rows:
            found = row.model_dump(mode="json")
            judged = self.test.get(row.name)
            rows.append({**found, "test": None if judged is None else asdict(judged)})
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


def _text(value: float, sign: str = "") -> str:
    """Four decimals, or four digits where the number is large, as errors in the unit of a quantity may be."""
    if abs(value) >= 1_000:
        return f"{value:{sign}.0f}"
    return f"{value:{sign}.4f}" if abs(value) < 10 else f"{value:{sign}#.4g}".rstrip(".")


def _interval(judged: Judged) -> str:
    return f"{_text(judged.score)} ({_text(judged.low)} to {_text(judged.high)})"


def _also(values: Mapping[str, str]) -> str:
    """Further metrics, in brackets."""
    return f" ({', '.join(f'{name} {value}' for name, value in values.items())})" if values else ""


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, kind, *numbers = zip(cells, widths, strict=True)
    texts = [cell.ljust(width) for cell, width in (first, kind)] + [cell.rjust(width) for cell, width in numbers]
    return "  ".join(texts).rstrip()
