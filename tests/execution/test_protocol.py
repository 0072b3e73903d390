from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import EvodevoError, UsageError
from evodevo.execution import protocol
from evodevo.execution.base import PAYLOAD_BYTES, Job, Result
from evodevo.execution.protocol import MESSAGE_BYTES, Decoder, ProtocolError, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.dictionaries(st.text(), VALUES, max_size=4).map(lambda extra: {**extra, "type": "any"})


@pytest.mark.slow
@given(st.lists(MESSAGES, max_size=5), st.data())
def test_messages_survive_any_cut_of_the_stream(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    stream = b"".join(map(encode, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    decoder = Decoder()
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[start:end])
    assert received == messages


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_nonsense_is_a_clear_error_and_nothing_else(data: bytes) -> None:
    for stream in (data, struct.pack(">I", len(data)) + data):
        with contextlib.suppress(ProtocolError):
            assert all("type" in message for message in Decoder().feed(stream))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"type":"a","x":NaN}', "NaN"),
        (b"[1]", "not an object"),
        (b'{"id":"a"}', "type"),
        (b'{"type":1}', "type"),
    ],
)
def test_malformed_frames_say_what_is_wrong(body: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        list(Decoder().feed(struct.pack(">I", len(body)) + body))


@pytest.mark.slow
def test_the_size_limit_holds_on_both_sides_before_anything_is_read() -> None:
    with pytest.raises(ProtocolError, match=str(MESSAGE_BYTES)):
        encode({"type": "x", "data": "a" * MESSAGE_BYTES})
    with pytest.raises(ProtocolError, match=str(MESSAGE_BYTES)):
        list(Decoder().feed(struct.pack(">I", MESSAGE_BYTES + 1)))


@pytest.mark.slow
def test_the_largest_result_fits_into_a_message() -> None:
    result = Result("id", "done", bytes(PAYLOAD_BYTES), "crash", "\0" * 4096, 1.0, "\0" * 65536)
    assert len(encode(protocol.from_result(result))) <= MESSAGE_BYTES + 4


def test_results_round_trip() -> None:
    result = Result("id", "failed", b"\x00\xff", "crash", "detail", 1.5, "log")
    (message,) = Decoder().feed(encode(protocol.from_result(result)))
    assert protocol.to_result(message) == result


def test_what_is_not_json_is_refused_when_it_is_sent() -> None:
    for value in (object(), math.nan, {1, 2}):
        with pytest.raises(ProtocolError):
            encode({"type": "x", "value": value})


@given(
    st.text(),
    st.text(),
    st.binary(max_size=100),
    st.none() | st.floats(0.1, 1e9),
    st.none() | st.integers(1, 2**50),
)
def test_jobs_round_trip(id: str, entry: str, payload: bytes, seconds: float | None, memory: int | None) -> None:
    job = Job(id, entry, payload, seconds, memory)
    (message,) = Decoder().feed(encode(protocol.from_job(job)))
    assert protocol.to_job(message) == job


@pytest.mark.parametrize(
    "change",
    [{"id": 1}, {"payload": "?"}, {"payload": "ä"}, {"payload": None}, {"seconds": "1"}, {"memory_bytes": 1.5}],
)
def test_a_job_with_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        protocol.to_job(protocol.from_job(Job("a", "b")) | change)


def test_a_result_with_an_unknown_reason_is_refused() -> None:
    message = protocol.from_result(Result("a", "failed", reason="crash"))
    with pytest.raises(ProtocolError, match="crash"):
        protocol.to_result(message | {"reason": "boredom"})


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_plain_data_is_reported_unchanged(payload: dict[str, Any]) -> None:
    assert protocol.plain(payload) == payload


def test_numbers_that_are_not_finite_are_reported_as_none() -> None:
    assert protocol.plain({"a": math.nan, "b": [math.inf, (1, -math.inf)]}) == {"a": None, "b": [None, [1, None]]}


@pytest.mark.parametrize("payload", [[], "text", {"a": object()}, {"a": {1}}])
def test_what_cannot_be_reported_is_the_evaluators_mistake(payload: Any) -> None:
    with pytest.raises(UsageError, match="report"):
        protocol.plain(payload)
    assert issubclass(ProtocolError, EvodevoError)
