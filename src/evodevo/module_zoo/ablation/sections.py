"""The rows of an ablation on a page: a table for each block."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from evodevo.experiments.report.model import Words
from evodevo.report.html import element, section
from evodevo.report.view import cut
from evodevo.report.word_tables import words_table


def ablation_section(blocks: Mapping[str, Words]) -> Element:
    """Title -> rows of a block, one under the other."""
    content: list[Element] = []
    for title, words in blocks.items():
        content += [element("h3", cut(title, 160)), words_table(words)]
    return section("ablation", "Ablation", *content)
