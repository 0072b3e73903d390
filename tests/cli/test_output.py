"""Data on stdout, words on stderr, and no text of a user as a terminal escape."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.cli import output

ESCAPES = ["\x1b]52;c;ZXZpbA==\x07", "\x1b[2J", "a\rb", "\x9b31m", "\u202eevil", "\x00"]


def test_control_characters_are_made_visible_and_markup_of_rich_is_plain_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for text in ESCAPES:
        output.line(text)
        output.words(text)
        output.table(["name"], [[text]])
    seen = capsys.readouterr()
    assert not set("\x1b\r\x07\x9b\u202e\x00") & set(seen.out + seen.err)
    output.line("[bold]x[/bold]")
    assert capsys.readouterr().out == "[bold]x[/bold]\n"


@given(st.text())
def test_a_document_is_one_line_of_ascii_with_its_schema_first_and_without_nan(text: str) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        output.document("evodevo.test/1", {"text": text})
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert written.isascii()
    assert json.loads(written) == {"schema": "evodevo.test/1", "text": text}
    with pytest.raises(ValueError, match="JSON"):
        output.document("evodevo.test/1", {"loss": float("nan")})


def test_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["name", "count"], [["a", 1], ["long", 1000]], right=("count",))
    assert capsys.readouterr().out == "name  count\na         1\nlong   1000\n"


def test_a_terminal_without_utf8_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.line("▮")
    output.close_quietly()
    assert raw.getvalue() == b"\\u25ae\n"
