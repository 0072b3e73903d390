"""What tables left out is said in words, as what corpora left out is."""

from __future__ import annotations

from evodevo.tasks.data_lines import data_lines


def test_counts_and_groups_of_what_was_left_out() -> None:
    table = {"left_out": {"no_input": 0, "image_unreadable": 1200}}
    assert data_lines(table)["left out"] == "1,200 image unreadable"
    corpus = {"left_out": [{"reason": "hidden", "count": 2, "names": [".git", ".env"]}]}
    assert data_lines(corpus)["left out"] == "2 hidden: .git, .env"
    assert "left out" not in data_lines({"left_out": {"no_input": 0}})
