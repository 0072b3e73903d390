"""One multipath model (µ4Net, 2302.02721, Fig. 1): frozen paths side by side, connectors that map what the supports
represent to the logits of the task, and a router that weighs them for each sample.
"""

from __future__ import annotations

from evodevo.multitask.diagrams.system.frame import Joined, PartMark, Stream, SystemFrame, mark_of, percent
from evodevo.report.charts.captions import LINE, MARGIN, draw_headline, headline_height, wrapped
from evodevo.report.charts.numbers import show
from evodevo.report.palette import task_role
from evodevo.report.svg import Drawing, number, one_line, text_width
from evodevo.report.wrapping import wrap

_COLUMN, _GAP = 176.0, 26.0
_BOX, _ROW = 20.0, 27.0
_WIDE = 132.0
_BOX_LINE, _PILL_LINE, _FOOT_LINE, _PATH_LINE = 11.0, 13.0, 13.0, 10.0
"""Pixels from line to line in a box, in the answer, and of the task and the path below a stream."""
_BOLD = 12.6
"""Font size by which the width of bold text of size 11 is estimated."""
_PARTS_AT_MOST = 14
"""Largest number of components with a box each; of more, the middle ones share one box."""


def multipath_model(frame: SystemFrame, model: Joined, *, title: str = "", subtitle: str = "") -> str:
    """The model from its inputs at the bottom to the answer on top.

    Args:
        frame: the frame that it belongs to.
        model: one of the frame's.
        title, subtitle: above.
    """
    return _Model(frame, model).draw(title, subtitle)


class _Model:
    def __init__(self, frame: SystemFrame, model: Joined) -> None:
        self.frame, self.model = frame, model
        self.boxes = [_boxes(frame, stream, headless=place > 0) for place, stream in enumerate(model.streams)]

    def draw(self, title: str, subtitle: str) -> str:
        frame, model, count = self.frame, self.model, len(self.model.streams)
        width = max(2 * MARGIN + _COLUMN * count + _GAP * (count - 1), 400.0)
        left = (width - _COLUMN * count - _GAP * (count - 1)) / 2
        xs = [left + _COLUMN / 2 + place * (_COLUMN + _GAP) for place in range(count)]
        head = headline_height(title, subtitle, width) + 6
        test = "" if model.test is None else f", test {percent(model.test)} %"
        answered = f"{model.task}: validation {percent(model.accuracy)} %{test}"
        more = _PILL_LINE * (len(self._pill_lines(answered, width)) - 1)
        answer, router = head + 13 + more / 2, head + 66 + more
        weights, connectors = router + 46, router + 82
        top = connectors + 40
        foot = top + max(sum(_row(words) for words, _, _ in boxes) for boxes in self.boxes) + 8
        feet = [self._foot(place, stream) for place, stream in enumerate(model.streams)]
        below = foot + 27 + max(_FOOT_LINE * len(name) + _PATH_LINE * len(path) for name, path in feet)
        facts = wrapped(self._facts(), width - 2 * MARGIN, 10.5)
        names = ", ".join(stream.path for stream in model.streams)
        self.drawing = Drawing(
            width, below + 16 + LINE * len(facts), f"{title or model.path}: multipath model of {names}"
        )
        drawing = self.drawing
        draw_headline(drawing, title, subtitle, width)
        middle = width / 2
        drawing.line(middle, router, middle, answer + 13 + more / 2, "stroke-ink", stroke_width=1.5)
        for place, (x, stream) in enumerate(zip(xs, model.streams, strict=True)):
            self._stream(place, stream, x, (router, weights, connectors, top, foot), middle)
        role = f"fill-{self._role(model.task)}"
        self._pill(middle, answer, answered, role, f"{model.path}\n{answered}", square=True)
        if model.router is not None:
            self._part(frame.parts[model.router], middle, router, "router", trained=True)
        else:
            self._pill(middle, router, "sum, no router", "fill-panel stroke-muted", "all paths count alike")
        for place, fact in enumerate(facts):
            drawing.text(MARGIN, below + 16 + LINE * (place + 0.2), fact, "fill-muted", 10.5)
        return drawing.svg()

    def _stream(
        self, place: int, stream: Stream, x: float, levels: tuple[float, float, float, float, float], middle: float
    ) -> None:
        router, weights, connectors, top, foot = levels
        drawing, boxes = self.drawing, self.boxes[place]
        weight = 1.0 if stream.weight is None else stream.weight
        thick = 1.5 if stream.weight is None else 0.8 + 5.0 * weight
        bow = (weights + router + _BOX / 2) / 2
        data = f"M{number(x)},{number(weights)}C{number(x)},{number(bow)} {number(middle)},{number(bow)} "
        data += f"{number(middle)},{number(router + _BOX / 2)}"
        words = f"{stream.path}\n" + (
            "mean weight not recorded" if stream.weight is None else f"mean weight {weight:.3f}"
        )
        drawing.path(data, "weight hollow stroke-ink", words, stroke_width=thick, data_weight=f"{weight:.3f}")
        drawing.line(x, foot + 8, x, weights, "stroke-ink", stroke_width=1.5)
        if stream.weight is not None:
            self._tag(x, weights, f"{weight:.2f}", words)
        if stream.connector is not None and stream.connector in self.frame.parts:
            self._part(self.frame.parts[stream.connector], x, connectors, f"connector {place}", trained=True)
        elif place == 0:
            drawing.text(x + 8, connectors + 4, "logits", "fill-muted", 10)
        for words, part, hidden in boxes:
            y = top + (_row(words) - _ROW + _BOX) / 2
            top += _row(words)
            if part is None:
                self._pill(x, y, words, "fill-panel stroke-muted", hidden)
            else:
                self._part(part, x, y, words, trained=False)
        role = self._role(stream.task)
        drawing.element("circle", f"fill-{role}", stream.path, cx=x, cy=foot + 8, r=4)
        name, path = self._foot(place, stream)
        look = f"fill-{role} strong"
        drawing.lines(x, foot + 27, name, look, 11, "middle", title=stream.path, step=_FOOT_LINE)
        y = foot + 27 + _FOOT_LINE * len(name)
        drawing.lines(x, y, path, "fill-muted", 9, "middle", title=stream.path, step=_PATH_LINE)

    def _foot(self, place: int, stream: Stream) -> tuple[list[str], list[str]]:
        """Lines of the task and of the path below a stream."""
        name = f"{'main' if place == 0 else 'support'}: {stream.task}"
        path = stream.path if stream.offered else f"{stream.path}, kept"
        return wrap(name, _COLUMN - 4, _BOLD), wrap(path, _COLUMN - 4, 9)

    def _part(self, part: PartMark, x: float, y: float, words: str, *, trained: bool) -> None:
        role = "memoryless" if part.root else self._role(part.task)
        mark = mark_of(self.frame, part)
        maker = part.task if part.root else f"task {mark}, {part.task}"
        hidden = f"{part.role}  {part.id}\n{show(part.parameters, 'parameters')} parameters\ntrained last for {maker}"
        hidden += "\ntrained by this model" if trained else "\nfrozen"
        with self.drawing.group("node trained" if trained else "node", hidden, data_part=one_line(part.id)):
            lines = _box_lines(words)
            high = _BOX + _BOX_LINE * (len(lines) - 1)
            place = (x - _WIDE / 2, y - high / 2, _WIDE, high)
            self.drawing.rect(*place, "fill-paper", rx=4)
            shade, thick = ("0.4", 2.6) if trained else ("0.16", 1.2)
            self.drawing.rect(*place, f"fill-{role} stroke-{role}", rx=4, fill_opacity=shade, stroke_width=thick)
            first = y + 3.5 - _BOX_LINE * (len(lines) - 1) / 2
            self.drawing.lines(x - _WIDE / 2 + 7, first, lines, "fill-ink", 10, step=_BOX_LINE)
            self.drawing.text(x + _WIDE / 2 - 6, y + 3.5, mark, "fill-ink strong", 9, "end")

    def _pill(self, x: float, y: float, words: str, classes: str, hidden: str, *, square: bool = False) -> None:
        lines = self._pill_lines(words, self.drawing.width) if square else [words]
        width = max(text_width(line, _BOLD if square else 10) for line in lines) + 16
        high = _BOX + square * 4 + _PILL_LINE * (len(lines) - 1)
        place = (x - width / 2, y - high / 2, width, high)
        with self.drawing.group("node", hidden):
            self.drawing.rect(*place, "fill-paper", rx=4 if square else _BOX / 2)
            self.drawing.rect(
                *place,
                f"{classes} stroke-ink" if square else classes,
                rx=4 if square else _BOX / 2,
                fill_opacity="0.25",
            )
            look, size = ("fill-ink strong", 11) if square else ("fill-muted", 10)
            first = y + 4 - _PILL_LINE * (len(lines) - 1) / 2
            self.drawing.lines(x, first, lines, look, size, "middle", step=_PILL_LINE)

    def _pill_lines(self, words: str, width: float) -> list[str]:
        """The answer on a drawing of this width."""
        return wrap(words, width - 2 * MARGIN - 16, _BOLD)

    def _tag(self, x: float, y: float, words: str, hidden: str) -> None:
        with self.drawing.group("tag", hidden):
            self.drawing.rect(x - 17, y - 9, 34, 18, "fill-paper stroke-ink", rx=9)
            self.drawing.text(x, y + 3.5, words, "fill-ink strong", 10, "middle")

    def _facts(self) -> list[str]:
        own = [
            part for part in (self.model.router, *(s.connector for s in self.model.streams)) if part in self.frame.parts
        ]
        trained = sum(self.frame.parts[part or ""].parameters for part in own)
        frozen = {part: self.frame.parts[part].parameters for stream in self.model.streams for part in stream.parts}
        total = trained + sum(frozen.values())
        share = f" ({100 * trained / total:.2g} %)" if total else ""
        return [
            "strong frame: trained by this model; all else is frozen",
            f"{show(trained, 'parameters')} of {show(total, 'parameters')} parameters{share} are trained",
            "number in a box: the task that it was last trained on, R a root",
        ]

    def _role(self, task: str) -> str:
        place = self.frame.number(task)
        return task_role(place - 1) if place else "memoryless"


def _box_lines(words: str) -> list[str]:
    """Words in a box, beside the number of a task."""
    return wrap(words, _WIDE - 34, 10)


def _row(words: str) -> float:
    """Height of the row of a box, in pixels."""
    return _ROW + _BOX_LINE * (len(_box_lines(words)) - 1)


def _boxes(frame: SystemFrame, stream: Stream, headless: bool) -> list[tuple[str, PartMark | None, str]]:
    """(words, component, tooltip) from the top down; None where several share a box."""
    parts = [frame.parts[part] for part in reversed(stream.parts) if part in frame.parts]
    if headless:
        parts = [part for part in parts if part.role != "head"]
    shown: list[tuple[str, PartMark | None, str]] = [(part.role, part, "") for part in parts]
    if len(shown) <= _PARTS_AT_MOST:
        return shown
    keep = _PARTS_AT_MOST // 2
    between = parts[keep : len(parts) - keep + 1]
    hidden = "\n".join(f"{part.role}  {part.id}" for part in between[:40])
    return [*shown[:keep], (f"… {len(between)} more …", None, hidden), *shown[len(parts) - keep + 1 :]]
