"""Wrapped text loses nothing and fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.report.svg import one_line, text_width
from evodevo.report.wrapping import least_width, wrap

TEXTS = st.text(st.sampled_from("abWim~_-. /0模"), max_size=300)


@given(TEXTS, st.floats(1, 400))
@settings(max_examples=80, deadline=None)
def test_lines_join_to_the_text_and_fit(text: str, width: float) -> None:
    lines = wrap(text, width, 10)
    assert "".join(lines) == one_line(text)
    assert all(len(line) == 1 or text_width(line, 10) <= width for line in lines if line)
    assert wrap(text, 1e6, 10) == [one_line(text)]


def test_lines_end_behind_a_separator_where_they_stay_long() -> None:
    assert wrap("cmaterdb_devanagari", 70, 10.5) == ["cmaterdb_", "devanagari"]
    assert wrap("a_" + "b" * 20, 70, 10.5)[0] == "a_" + "b" * 8, "not two letters alone"


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_a_width_that_is_found_is_wide_enough(texts: list[str], lines: int) -> None:
    width = least_width(texts, lines, 10, 60)
    assert all(len(wrap(text, width, 10)) <= lines for text in texts)
    assert least_width(texts, lines, 10, 60, 80) <= 80
