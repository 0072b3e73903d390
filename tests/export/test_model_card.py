"""The card says what the export is, and a user's names are never markup in it."""

from __future__ import annotations

from dataclasses import replace

from evodevo.export.base import Exporter, ExportSubject
from evodevo.export.model_card import MOST_CLASSES, model_card
from evodevo.export.torch_export import PT2
from evodevo.export.verify import Verified
from evodevo.testing.exporters import multipath, subject, vision_path

VERIFIED = Verified(2e-7, 3.5, 8)


def card(of: ExportSubject, exporter: Exporter = PT2) -> str:
    return model_card(exporter, of, VERIFIED)


def test_it_says_how_good_it_is_and_how_that_was_used() -> None:
    text = card(subject(vision_path()))
    assert "| validation | 0.5000 | chose this path" in text
    assert "| test | 0.2500 | 8 samples; played no part" in text
    made = replace(subject(vision_path()).provenance, test=None, test_samples=None)
    assert "| test | not measured | run: evodevo extend run --test" in card(
        replace(subject(vision_path()), provenance=made)
    )


def test_it_says_what_it_is_made_of_how_it_was_verified_and_under_which_licence() -> None:
    text = card(subject(vision_path()))
    assert "400 parameters in 2 components, of which 100 (25.0%)" in text
    assert "`B~shapes/1`: num\\_layers" in text
    assert "dense form" not in text
    joint = card(subject(multipath()))
    assert "Main path: `A~shapes/0`. Supports: `A~other/1`, `A~root_model~x/0`." in joint
    assert "dense form" in joint
    assert "is not exported" in joint
    assert "8 probes, largest difference of a logit 2e-07 where the largest logit is 3.5" in text
    assert "Licence:" in text
    assert text.startswith("---\nlibrary_name: pytorch\npipeline_tag: image-classification\nlicense: unknown\n")


def test_a_class_is_never_markup_and_many_stand_in_the_other_file() -> None:
    for name in ("a | b", "<script>x</script>", "[x](http://y)", "two\nlines", "`code`", "# head"):
        text = card(replace(subject(vision_path()), classes=("x", name, "y")))
        (row,) = [line for line in text.splitlines() if line.startswith("| 1 |")]
        plain = row.replace("\\|", "")
        assert plain.count("|") == 3
        for mark in ("<", "[", "`", "#"):
            assert plain.count(mark) == row.count("\\" + mark)
    names = tuple(f"class {place}" for place in range(MOST_CLASSES + 7))
    text = card(replace(subject(vision_path()), classes=names))
    assert "| … | 7 more in `spec.json` |" in text
    assert f"class {MOST_CLASSES}" not in text


def test_examples_fit_the_input() -> None:
    for heading, code in PT2.usage(subject(vision_path())):
        assert heading
        compile(code, heading, "exec")
        assert "6, 9, 3" in code
