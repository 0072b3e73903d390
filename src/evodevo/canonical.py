"""Strict JSON and hashes over it: one text per value, and no value that JSON cannot represent.

Python's own parser accepts NaN, 1e999, duplicate keys and numbers of any length. Files from untrusted sources may hold
all four, so ``loads`` refuses them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from evodevo.errors import UsageError

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 64
MAX_DIGITS = 30
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def dumps(value: Any) -> str:
    """The canonical text of a value: sorted keys, no spaces, no NaN or infinity.

    Raises:
        UsageError: The value has no JSON form.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"this value has no canonical JSON form: {error}") from None


def loads(text: str | bytes, *, what: str = "JSON", max_bytes: int = MAX_BYTES) -> Any:
    """Parse strictly.

    Args:
        text: JSON text or its UTF-8 bytes.
        what: Name of the text in error messages.
        max_bytes: Largest accepted size in bytes, checked before parsing.

    Raises:
        UsageError: The text is not JSON, is over a limit, has a duplicate key, or a number that is not finite.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > max_bytes:
        raise UsageError(f"{what} has {len(raw)} bytes; at most {max_bytes} are read.")
    if _depth(raw) > MAX_DEPTH:
        raise UsageError(f"{what} is nested deeper than {MAX_DEPTH} levels.")
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_int=_bounded_int,
            parse_float=_finite_float,
        )
    except _RefusedError as error:
        raise UsageError(f"{what}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not valid JSON: {error}") from None


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, as 64 hexadecimal digits."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()


class _RefusedError(ValueError):
    pass


def _depth(raw: bytes) -> int:
    # Brackets inside strings do not nest. The pattern is possessive with an optional closing quote, so that it runs in
    # linear time on any input, also on strings that never end. Counting before parsing keeps deep nesting from
    # exhausting the parser's recursion.
    depth = deepest = 0
    for byte in _STRING.sub(b"", raw).translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {key[:80]!r} occurs twice.")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> None:
    raise _RefusedError(f"{name} is not a number in JSON.")


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError(f"an integer of {len(text)} digits; at most {MAX_DIGITS} are read.")
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"{text[:40]} is out of range.")
    return value
