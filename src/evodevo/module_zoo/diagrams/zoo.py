"""A whole network with a zoo of modules: inputs, extractors, fusion, one card per module, router, outputs.

Read downwards. Modules work side by side on the same fused sequence; what the router gave a module in the mean over
samples is the bar at the foot of its card, where it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.report.charts.captions import (
    LINE,
    MARGIN,
    draw_families,
    draw_headline,
    families_of,
    headline_height,
    wrapped,
)
from evodevo.report.charts.glyphs import family_glyph
from evodevo.report.charts.numbers import show
from evodevo.report.palette import family_role
from evodevo.report.svg import Drawing, empty, finite, number, one_line, shorten

_CARD_WIDTH, _CARD_HEIGHT = 176.0, 86.0
_GAP, _STEP = 10.0, 22.0
_PER_ROW = 4
_BOX_HEIGHT, _PILL_HEIGHT = 36.0, 22.0
_MOST_CARDS, _MOST_INPUTS = 48, 8


@dataclass(frozen=True)
class InputMark:
    """One input, and in a few words how it is read."""

    name: str
    extractor: str


@dataclass(frozen=True)
class ModuleMark:
    """One card.

    Attributes:
        id: id of the module.
        archetype: ``transformer``, ``hybrid``.
        family: ``attention``, ``recurrence``, ``convolution``, ``memoryless``, or another word.
        attributes: each in few characters ("depth 2", "4 heads").
        parameters: number of parameters of the module; None where not known.
        share: mean router weight, 0 to 1; None where not known.
        executed: share of samples that it is run on; None where not known.
        disabled: whether it is switched off: it neither runs nor counts.
    """

    id: str
    archetype: str
    family: str
    attributes: Sequence[str] = ()
    parameters: int | None = None
    share: float | None = None
    executed: float | None = None
    disabled: bool = False


@dataclass(frozen=True)
class Stage:
    """A part that all samples pass: fusion, router. ``detail`` describes it in few words."""

    name: str
    detail: str = ""


def module_zoo_diagram(
    modules: Sequence[ModuleMark],
    inputs: Sequence[InputMark] = (InputMark("inputs", ""),),
    fusion: Stage | None = None,
    router: Stage | None = None,
    outputs: Sequence[str] = ("outputs",),
    facts: Sequence[str] = (),
    title: str = "",
    subtitle: str = "",
) -> str:
    """The network as an SVG string; each card is a group of class ``module`` with ``data-id``.

    Args:
        modules: modules in order; of very many the first are drawn.
        inputs: inputs with their extractors; of very many the first are drawn.
        fusion: None where there is one modality.
        router: None where it is not to be drawn.
        outputs: names.
        facts: short sentences below the network.
        title, subtitle: text above the network.
    """
    if not modules:
        return empty("This zoo has no modules.")
    shown, read = list(modules)[:_MOST_CARDS], list(inputs)[:_MOST_INPUTS]
    columns = min(max(len(shown), 2), _PER_ROW)
    rows = -(-len(shown) // columns)
    inside = columns * _CARD_WIDTH + (columns - 1) * _GAP
    frame = inside + 2 * _GAP
    width = max(frame + 2 * MARGIN, 320)
    title, subtitle = one_line(title), one_line(subtitle)
    more = [f"the first {len(shown)} of {len(modules)} modules are drawn"] if len(shown) < len(modules) else []
    lines = wrapped([one_line(fact, 200) for fact in [*facts, *more]], width - 2 * MARGIN)
    families = families_of(module.family for module in shown)
    head = headline_height(title, subtitle)
    frame_height = 24 + rows * (_CARD_HEIGHT + _GAP)
    stages = [stage for stage in (fusion, router) if stage is not None]
    height = head + 2 * _PILL_HEIGHT + _BOX_HEIGHT + frame_height + (_BOX_HEIGHT + _STEP) * len(stages)
    height += 3 * _STEP + 14 + LINE * len(lines) + 20

    drawing = Drawing(width, height, f"{title or 'zoo of modules'}: {len(modules)} modules")
    draw_headline(drawing, title, subtitle)
    left, y = (width - frame) / 2, head
    y = _draw_inputs(drawing, read, left, y, frame)
    if fusion is not None:
        y = _draw_stage(drawing, fusion, left, y, frame)
    drawing.rect(left, y, frame, frame_height, "frame fill-panel stroke-muted", rx=8)
    count = sum(not module.disabled for module in modules)
    words = f"{count} module{'s' if count != 1 else ''}, side by side"
    drawing.text(left + _GAP, y + 16, words, "fill-muted", size=10)
    for place, module in enumerate(shown):
        row, column = divmod(place, columns)
        _draw_card(drawing, module, left + _GAP + column * (_CARD_WIDTH + _GAP), y + 24 + row * (_CARD_HEIGHT + _GAP))
    y = _draw_arrow(drawing, width / 2, y + frame_height)
    if router is not None:
        y = _draw_stage(drawing, router, left, y, frame)
    _draw_pill(drawing, ", ".join(one_line(name, 60) for name in outputs), left, y, frame)
    y += _PILL_HEIGHT + 4
    for place, line in enumerate(lines):
        drawing.text(MARGIN, y + 16 + LINE * place, line, "fill-ink", size=11)
    draw_families(drawing, families, height - 10)
    return drawing.svg()


def _draw_inputs(drawing: Drawing, inputs: Sequence[InputMark], left: float, top: float, width: float) -> float:
    """Each input as a pill over its extractor, side by side; returns where the next stage begins."""
    each = (width - _GAP * (len(inputs) - 1)) / max(len(inputs), 1)
    for place, mark in enumerate(inputs):
        x = left + place * (each + _GAP)
        _draw_pill(drawing, mark.name, x, top, each)
        y = _draw_arrow(drawing, x + each / 2, top + _PILL_HEIGHT)
        _draw_box(drawing, "extractor", mark.extractor, x, y, each)
        _draw_arrow(drawing, x + each / 2, y + _BOX_HEIGHT)
    return top + _PILL_HEIGHT + _BOX_HEIGHT + 2 * _STEP


def _draw_stage(drawing: Drawing, stage: Stage, left: float, y: float, width: float) -> float:
    _draw_box(drawing, stage.name, stage.detail, left, y, width)
    return _draw_arrow(drawing, left + width / 2, y + _BOX_HEIGHT)


def _draw_box(drawing: Drawing, name: str, detail: str, x: float, y: float, width: float) -> None:
    name, detail = one_line(name, 80), one_line(detail, 300)
    words = f"{name}: {detail}" if detail else name
    with drawing.group("stage", title=words):
        drawing.rect(x, y, width, _BOX_HEIGHT, "fill-panel stroke-muted", rx=4)
        base = y + (15 if detail else 22)
        shown = shorten(name, width - 12, 11)
        drawing.text(x + width / 2, base, shown, "fill-ink strong", size=11, anchor="middle")
        drawing.text(x + width / 2, y + 29, shorten(detail, width - 12, 10), "fill-muted", size=10, anchor="middle")


def _draw_pill(drawing: Drawing, words: str, x: float, y: float, width: float) -> None:
    words = one_line(words, 300)
    drawing.rect(x, y, width, _PILL_HEIGHT, "fill-panel stroke-muted", title=words, rx=_PILL_HEIGHT / 2)
    drawing.text(x + width / 2, y + 15, shorten(words, width - 20, 11), "fill-ink", size=11, anchor="middle")


def _draw_arrow(drawing: Drawing, x: float, y: float) -> float:
    """Downwards; returns where the next part begins."""
    drawing.line(x, y, x, y + _STEP - 6, "stroke-ink", stroke_width=1.3)
    drawing.path(f"M{number(x)},{number(y + _STEP - 1)}l-3.5,-6h7Z", "fill-ink")
    return y + _STEP


def _draw_card(drawing: Drawing, module: ModuleMark, x: float, y: float) -> None:
    role = family_role(module.family)
    name, archetype = one_line(module.id, 80), one_line(module.archetype, 80)
    attributes = [one_line(word, 80) for word in module.attributes]
    counted = "" if module.parameters is None else f"{show(module.parameters, 'parameters')} parameters"
    share, executed = finite(module.share), finite(module.executed)
    words = [name, archetype, ", ".join(attributes), counted]
    words.append("" if share is None else f"mean router weight {share:.3f}")
    words.append("" if executed is None else f"run on {executed:.1%} of the samples")
    words.append("switched off" if module.disabled else "")
    tint = "fill-paper stroke-muted off" if module.disabled else f"fill-{role}-soft stroke-{role}"
    with drawing.group("module", title="\n".join(word for word in words if word), data_id=name):
        drawing.rect(x, y, _CARD_WIDTH, _CARD_HEIGHT, tint, rx=4, stroke_dasharray="4 3" if module.disabled else "none")
        drawing.path(family_glyph(module.family, x + 12, y + 14, 4.5), f"fill-{role}")
        drawing.text(x + 22, y + 18, shorten(name, _CARD_WIDTH - 30, 11), "fill-ink strong", size=11)
        kind = [archetype] if archetype and not name.startswith(archetype) else []
        for place, line in enumerate(_two_lines([*kind, *attributes], _CARD_WIDTH - 18)):
            drawing.text(x + 9, y + 33 + 12 * place, line, "fill-ink", size=9)
        drawing.text(x + 9, y + 59, counted, "fill-muted", size=9)
        if module.disabled:
            drawing.text(x + _CARD_WIDTH - 9, y + 59, "off", "fill-muted", size=9, anchor="end")
        elif share is not None:
            _draw_share(drawing, share, executed, role, x + 9, y + _CARD_HEIGHT - 12)


def _two_lines(words: Sequence[str], width: float) -> list[str]:
    """With commas between; what does not fit is cut off."""
    lines = wrapped(words, width, 9, ", ")
    return lines if len(lines) < 2 else [f"{lines[0]},", shorten(", ".join(lines[1:]), width, 9)]


def _draw_share(drawing: Drawing, share: float, executed: float | None, role: str, x: float, y: float) -> None:
    """The bar of the mean router weight, with its number and, at the right, how often the module is run."""
    label = f"{100 * share:.0f} %"
    room = _CARD_WIDTH - 18 - 34
    drawing.rect(x, y - 7, room, 6, "fill-paper", rx=1.5)
    drawing.rect(x, y - 7, room * min(max(share, 0.0), 1.0), 6, f"bar fill-{role}", rx=1.5)
    drawing.text(x + _CARD_WIDTH - 18, y, label, "fill-ink", size=9, anchor="end")
    if executed is not None:
        words = f"run on {100 * executed:.0f} %"
        drawing.text(x + _CARD_WIDTH - 18, y - 15, words, "fill-muted", size=9, anchor="end")
