"""The description of a task's data as lines for people: source, splits, classes, baselines, what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.tasks.base import ALL_SPLITS

_NAMED = 8


def data_lines(description: Mapping[str, Any]) -> dict[str, str]:
    """Title -> line, for what a task's ``describe`` holds; records of older versions hold less.

    Args:
        description: Description of the data by the task, as a run records it.
    """
    lines = {
        "data": _source(description.get("source")),
        "splits": _splits(description),
        "classes": _classes(description.get("class_counts")),
        "languages": _languages(description),
        "groups": _groups(description.get("groups")),
        "texts": _texts(description),
        "left out": "; ".join(_left_out(description.get("left_out", ()))),
        "without a network, on validation": _plain(description),
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


def _classes(counts: Any) -> str:
    """``world (410), sport (395), …`` of the training split, the largest first."""
    if not isinstance(counts, Mapping) or not isinstance(taught := counts.get("train"), Mapping):
        return ""
    ranked = sorted(taught.items(), key=lambda one: -one[1])
    more = f" and {len(ranked) - _NAMED} more, {len(ranked)} in all" if len(ranked) > _NAMED else ""
    return f"{', '.join(f'{name} ({count:,})' for name, count in ranked[:_NAMED])}{more}"


def _groups(groups: Any) -> str:
    """``depth: 0, 1, 2, 3, 5``."""
    if not isinstance(groups, Mapping):
        return ""
    parts = []
    for name, values in groups.items():
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        parts.append(f"{name}: {', '.join(map(str, values[:_NAMED]))}{more}")
    return "; ".join(parts)


def _texts(description: Mapping[str, Any]) -> str:
    """``at most 128 tokens are read of each, mean 61; 1.3 % of the training texts are cut``."""
    length, mean, cut = (description.get(name) for name in ("length", "tokens_per_text", "share_cut"))
    if length is None or mean is None or cut is None:
        return ""
    return f"at most {length:,} tokens are read of each, mean {mean:.0f}; {cut:.1%} of the training texts are cut"


def _languages(description: Mapping[str, Any]) -> str:
    """``ar (Arabic, 41,000 training tokens), …``."""
    scripts, tokens = description.get("scripts"), description.get("tokens")
    if not isinstance(scripts, Mapping) or not isinstance(tokens, Mapping) or not isinstance(tokens["train"], Mapping):
        return ""
    return ", ".join(
        f"{name} ({script}, {tokens['train'][name]:,} training tokens)" for name, script in scripts.items()
    )


def _plain(description: Mapping[str, Any]) -> str:
    """``majority 0.490, tf-idf 0.612``; a unit where the task names one."""
    baselines = description.get("baselines")
    if not isinstance(baselines, Mapping) or not isinstance(known := baselines.get("validation"), Mapping):
        return ""
    unit = f" {description['baseline_unit']}" if "baseline_unit" in description else ""
    return ", ".join(f"{name} {value:.3f}{unit}" for name, value in known.items())


def _left_out(left_out: Any) -> list[str]:
    """Groups of files, or, of tables, counts by reason."""
    if isinstance(left_out, Mapping):
        return [f"{count:,} {reason.replace('_', ' ')}" for reason, count in left_out.items() if count]
    return [_group(group) for group in left_out]


def _group(group: Mapping[str, Any]) -> str:
    names = list(group["names"])
    more = f" and {group['count'] - len(names):,} more" if names and group["count"] > len(names) else ""
    return f"{group['count']:,} {group['reason']}" + (f": {', '.join(names)}{more}" if names else "")
