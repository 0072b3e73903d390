"""The description of a task's data as lines for people: source, sizes of the splits, what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.tasks.base import ALL_SPLITS


def data_lines(description: Mapping[str, Any]) -> dict[str, str]:
    """Title -> line, for what a task's ``describe`` holds; records of older versions hold less.

    Args:
        description: Description of the data by the task, as a run records it.
    """
    lines = {
        "data": _source(description.get("source")),
        "splits": _splits(description),
        "left out": "; ".join(_left_out(description.get("left_out", ()))),
    }
    return {title: line for title, line in lines.items() if line}


def _source(source: Any) -> str:
    """A task over another task's samples describes that one as its source."""
    return _source(source.get("source", source.get("task"))) if isinstance(source, Mapping) else str(source or "")


def _splits(description: Mapping[str, Any]) -> str:
    tokens, samples = description.get("tokens", {}), description.get("samples", {})
    contexts, length = description.get("contexts", {}), description.get("context_length")
    parts = []
    for split in ALL_SPLITS:
        # The sizes of several languages are one table each.
        size = sum(tokens[split].values()) if isinstance(tokens.get(split), Mapping) else tokens.get(split)
        if size is not None:
            windows = f" ({contexts[split]:,} contexts of {length:,})" if split in contexts else ""
            parts.append(f"{split} {size:,} tokens{windows}")
        elif split in samples:
            parts.append(f"{split} {samples[split]:,} samples")
    rule = description.get("split_rule")
    return ", ".join(parts) + (f"; {rule}" if parts and isinstance(rule, str) else "")


def _left_out(left_out: Any) -> list[str]:
    """Groups of files, or, of tables, counts by reason."""
    if isinstance(left_out, Mapping):
        return [f"{count:,} {reason.replace('_', ' ')}" for reason, count in left_out.items() if count]
    return [_group(group) for group in left_out]


def _group(group: Mapping[str, Any]) -> str:
    names = list(group["names"])
    more = f" and {group['count'] - len(names):,} more" if names and group["count"] > len(names) else ""
    return f"{group['count']:,} {group['reason']}" + (f": {', '.join(names)}{more}" if names else "")
