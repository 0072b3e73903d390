"""The messages between coordinator, worker and evaluation: length-prefixed JSON frames.

A frame is four bytes (big-endian length) and that many bytes of UTF-8 JSON: one object with a ``type``. Bytes are sent
as base64. Nothing received is ever executed or imported; names select rows of this package's own tables.

    coordinator -> worker      start {preload, packages, threads} · job {...} · cancel {id}
    worker -> coordinator      ready · refused {detail} · progress {id, payload} · result {...}
    worker -> evaluation       job {..., scratch}, where its process takes another one
    evaluation -> worker       progress {payload} · done {payload, fit, device} · failed {reason, detail, fit, device}
"""

from __future__ import annotations

import binascii
import json
import math
import struct
from collections.abc import Iterator
from typing import Any

from evodevo.errors import EvodevoError, UsageError
from evodevo.execution.base import PAYLOAD_BYTES, Job, Reason, Result
from evodevo.execution.device_memory import DeviceUse

MESSAGE_BYTES = 64 * 2**20
_LENGTH = struct.Struct(">I")

Message = dict[str, Any]


class ProtocolError(EvodevoError):
    """A frame that is too large or is not a message of this protocol."""


def encode(message: Message) -> bytes:
    """The frame of a message.

    Raises:
        ProtocolError: The message has no JSON form, or is larger than ``MESSAGE_BYTES``.
    """
    try:
        body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a message cannot be written as JSON: {error}") from None
    if len(body) > MESSAGE_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes is too large; at most {MESSAGE_BYTES} are sent.")
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Splits a stream of bytes, which may be cut anywhere, into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes.

        Raises:
            ProtocolError: A frame is too large or malformed; the rest of the stream cannot be read.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MESSAGE_BYTES:
                raise ProtocolError(f"a frame announces {length} bytes; at most {MESSAGE_BYTES} are read.")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(memoryview(self._buffer)[_LENGTH.size : end])
            del self._buffer[:end]
            yield _parse(body)


def _parse(body: bytes) -> Message:
    try:
        message = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame is not JSON ({error}); it begins with {body[:80]!r}.") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ProtocolError(f"a frame is not an object with a type; it begins with {body[:80]!r}.")
    return message


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def field(message: Message, name: str, kind: type[Any] | tuple[type[Any], ...]) -> Any:
    """A field of a message, after a check of its type.

    Raises:
        ProtocolError: The field is missing or of another type.
    """
    value = message.get(name)
    if not isinstance(value, kind):
        raise ProtocolError(f"a message {message.get('type')!r} has no proper field {name!r}: {str(value)[:80]!r}.")
    return value


def to_text(data: bytes) -> str:
    """Bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def to_bytes(text: str) -> bytes:
    """The inverse of ``to_text``.

    Raises:
        ProtocolError: The text is not base64.
    """
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError as error:
        raise ProtocolError(f"a payload is not base64: {error}") from None


def plain(payload: object) -> dict[str, Any]:
    """A live message in the form in which it arrives, equal for all executors.

    Numbers that are not finite become None, because strict JSON would refuse the report of a diverging loss.

    Raises:
        UsageError: The payload is not a dict, has no JSON form, or is larger than ``PAYLOAD_BYTES``.
    """
    if not isinstance(payload, dict):
        raise UsageError(f"report() takes a dict; got {type(payload).__name__}.")
    try:
        text = json.dumps(_finite(payload), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"report() takes a dict with a JSON form: {error}") from None
    if len(text) > PAYLOAD_BYTES:
        raise UsageError(f"report() was given {len(text)} bytes of JSON; at most {PAYLOAD_BYTES} fit.")
    result: dict[str, Any] = json.loads(text)
    return result


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def from_job(job: Job) -> Message:
    """A job as a message."""
    return {
        "type": "job",
        "id": job.id,
        "entry": job.entry,
        "payload": to_text(job.payload),
        "seconds": job.seconds,
        "memory_bytes": job.memory_bytes,
    }


def to_job(message: Message) -> Job:
    """The inverse of ``from_job``.

    Raises:
        ProtocolError: a field is missing or of another type.
    """
    return Job(
        id=field(message, "id", str),
        entry=field(message, "entry", str),
        payload=to_bytes(field(message, "payload", str)),
        seconds=field(message, "seconds", (int, float, type(None))),
        memory_bytes=field(message, "memory_bytes", (int, type(None))),
    )


def from_result(result: Result) -> Message:
    """A result as a message."""
    return {
        "type": "result",
        "id": result.id,
        "state": result.state,
        "payload": None if result.payload is None else to_text(result.payload),
        "reason": result.reason,
        "detail": result.detail,
        "seconds": result.seconds,
        "log": result.log,
        "device": None if result.device is None else list(result.device),
    }


def to_result(message: Message) -> Result:
    """The inverse of ``from_result``.

    Raises:
        ProtocolError: a field is missing or of another type.
    """
    payload = field(message, "payload", (str, type(None)))
    return Result(
        id=field(message, "id", str),
        state="done" if field(message, "state", str) == "done" else "failed",
        payload=None if payload is None else to_bytes(payload),
        reason=None if message.get("reason") is None else to_reason(field(message, "reason", str)),
        detail=field(message, "detail", str),
        seconds=float(field(message, "seconds", (int, float))),
        log=field(message, "log", str),
        device=to_device(message.get("device")),
    )


def to_device(numbers: object) -> DeviceUse | None:
    """The use of a device, from its numbers in a message; None from None.

    Raises:
        ProtocolError: These are not its four numbers.
    """
    if numbers is None:
        return None
    if not isinstance(numbers, list) or len(numbers) != 4 or not all(type(one) is int and one >= 0 for one in numbers):
        raise ProtocolError(f"the use of a device is four numbers of bytes: {str(numbers)[:80]!r}.")
    return DeviceUse(*numbers)


_REASONS: dict[str, Reason] = {
    "exception": "exception",
    "crash": "crash",
    "killed": "killed",
    "timeout": "timeout",
    "memory": "memory",
    "lost": "lost",
}


def to_reason(name: str) -> Reason:
    """The reason of that name.

    Raises:
        ProtocolError: There is no such reason.
    """
    if name not in _REASONS:
        raise ProtocolError(f"unknown reason {name[:80]!r}; known: {', '.join(_REASONS)}.")
    return _REASONS[name]
