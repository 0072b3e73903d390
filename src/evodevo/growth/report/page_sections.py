"""How networks grew, as a section of a page."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from evodevo.growth.report.page_data import GrownTraining, GrowthPart
from evodevo.report.html import details, element, paragraph, section
from evodevo.report.view import cut
from evodevo.report.word_tables import pictures, words_table


def growth_section(part: GrowthPart) -> Element:
    """The table of all arms, hybrids, and for each arm its best training, the others folded."""
    content: list[Element] = [words_table(part.arms), words_table(part.decisions)]
    if part.hybrids is not None:
        content += [element("h3", "Hybrids"), words_table(part.hybrids)]
    for arm in part.trainings:
        content += [element("h3", cut(f"How {arm.name} grew", 160)), *_training(arm.best)]
        content += [details(cut(one.title, 160), *_training(one)) for one in arm.others]
    return section("growth", "Growth", *content)


def _training(one: GrownTraining) -> list[Element]:
    words = " ".join([f"{one.title}.", *one.summary])
    content: list[Element] = [paragraph(cut(words, 900)), *pictures(one.pictures)]
    content.append(details("Every edit", words_table(one.history)))
    if one.differing is not None:
        content.append(details("Where it decided otherwise than the heuristic", words_table(one.differing)))
    if one.newborns:
        count = len(one.newborns)
        summary = f"{count} newborn{'s' if count > 1 else ''} beside {'their' if count > 1 else 'its'} parents"
        content.append(details(summary, *pictures(one.newborns)))
    return content
