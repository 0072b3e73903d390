"""Scripts of texts."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.tasks.text.languages import OTHER, script


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Am Montag haben die Wissenschaftler", "Latin"),
        ("У понеділок, науковці", "Cyrillic"),
        ("في يوم الاثنين", "Arabic"),
        ("周一，斯坦福大学医学院", "Han"),
        ("これはペンです", "Kana"),
        ("오늘은 월요일", "Hangul"),
        ("Τη Δευτέρα", "Greek"),
        ("सोमवार को", "Devanagari"),
        ("দিন", "Bengali"),
        ("ביום שני", "Hebrew"),
        ("ორშაბათს", "Georgian"),
        ("Երկուշաբթի", "Armenian"),
        ("วันจันทร์", "Thai"),
        ("Das ist ein Zitat: да", "Latin"),
        ("123 - !?", OTHER),
        ("", OTHER),
    ],
)
def test_scripts_of_sentences(text: str, name: str) -> None:
    assert script(text) == name


@given(st.text(max_size=30), st.randoms())
def test_order_and_what_is_no_letter_do_not_matter(text: str, random: object) -> None:
    letters = list(text)
    random.shuffle(letters)  # type: ignore[attr-defined]
    assert script("".join(letters) + " 12.,;") == script(text)


@given(st.characters(categories=["Lu", "Ll", "Lo"]))
def test_a_letter_has_the_script_of_its_unicode_name(letter: str) -> None:
    name = unicodedata.name(letter, "")
    found = script(letter)
    known = {"LATIN": "Latin", "GREEK": "Greek", "CYRILLIC": "Cyrillic", "ARABIC": "Arabic", "HEBREW": "Hebrew"}
    if found in known.values():
        # The Greek block holds the Coptic letters that are derived from it.
        assert known.get(name.split()[0]) == found or name.startswith("COPTIC")
