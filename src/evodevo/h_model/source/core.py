"""The class of generated files for the core of an H-Model (``h_model.core``): layers, routers, iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.aggregations.base import AggregationSizes
from evodevo.h_model.births import TINY, stages
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.core import HCore
from evodevo.h_model.cost import layer_flops
from evodevo.h_model.router import Router
from evodevo.h_model.source.carried import carried_source
from evodevo.h_model.source.routers import router_source
from evodevo.h_model.source.tables import alpha_source, table_source
from evodevo.networks.source.embeddings import embedding_source
from evodevo.networks.source.routing import gate_source, kept_source
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import Fragment, SourceSheet, indented, listed

REAL_POSITIONS = Fragment(
    "real_positions",
    '''
def real_positions(weights, masks):
    """Real positions (B, N, S) of each target: those (B, K, S) of any source whose weight (B, P, K, N) is above 0."""
    if weights.shape[1] == 1:
        return (weights[:, 0] > 0).float().transpose(1, 2) @ masks.float() > 0
    return ((weights > 0) & masks.transpose(1, 2).unsqueeze(-1)).any(2).transpose(1, 2)
''',
)

_DOCSTRING = '''\
    """{count} hidden layers that all run in every iteration, and routers.

    The output of a layer decides, for each {where} and iteration, which targets receive it, and with what weight.
    Targets are the hidden layers, then the outputs ({outputs})."""'''
_ABOUT = '''\
        """What the outputs have received, after the input step and after each iteration.

        Inputs are (B, I, S, D), with their real positions (B, I, S) or None; each step gives (B, O, S, D) and
        (B, O, S) or None."""'''
_ABOUT_A_PASS = _ABOUT.replace("and after each iteration.", "and after each iteration of the pass ``number``.")
_FIXED = "torch.where(fixed.isnan()[:, None], weights, fixed.nan_to_num()[:, None] * legal)"
_OPENED = '''
    def opened(self, logits, alpha, legal, fixed):
        """Weights (B, P, K, N); those of some sources are fixed."""
        weights = {gate}(logits, alpha, legal)
        return {fixed}
'''
_BORN = '''
    def opened(self, logits, alpha, tables{argument}, shares):
        """Weights (B, P, K, N), of layers that are partly born: a mean over stages, each with its connections."""
        total = 0.0
        for share, legal in zip(shares, tables, strict=True):
            weights = {gate}(logits, alpha, legal){fixed}
            total = total + share * weights
        return total
'''
_ALL_RUN = '''
    def outputs(self, x, masks):
        """The output of each layer: (B, H, S, D)."""
        real = [None] * len(self.layers) if masks is None else masks.unbind(1)
        made = torch.stack([layer(x[:, j], real[j]) for j, layer in enumerate(self.layers)], 1)
        return made if masks is None else made * masks.unsqueeze(-1)
'''
_SOME_RUN = '''
    def outputs(self, x, masks, active):
        """The output of each layer: (B, H, S, D).

        A layer runs only for the samples with a connection to it, where ``active`` (B, H) is true; its output is 0 for
        the others."""
        made = torch.zeros_like(x)
        for j, layer in enumerate(self.layers):
            rows = active[:, j]
            if rows.any():
                made[rows, j] = layer(x[rows, j], None if masks is None else masks[rows, j])
        return made if masks is None else made * masks.unsqueeze(-1)
'''
_RECEIVE = '''
    def receive(self, messages, weights, masks, of_input):
        """Inputs (B, N, S, D) of the targets, and their real positions (B, N, S) or None."""
        x = self.aggregation(messages, weights, masks, of_input){whole}
        return x, None if masks is None else real_positions(weights, masks)
'''
_WHOLE = """
        if masks is None and weights.shape[1] > 1:
            masks = torch.ones(messages.shape[:3], dtype=torch.bool, device=x.device)"""
_LOGITS = '''
    def logits(self, routers, messages, masks, targets):
        """Logits (B, P, K, targets) of the connections of messages (B, K, S, D)."""
        real = [None] * len(routers) if masks is None else masks.unbind(1)
        each = [router(messages[:, i], real[i]) for i, router in enumerate(routers)]{widened}
        return torch.stack(each, 2)
'''
_WIDENED = """
        positions = max(one.shape[1] for one in each)
        each = [one.expand(-1, positions, targets) for one in each]"""
_SPREAD = '''
    def spread(self, logits):
        """Logits of neighbours by their offset -> logits of all targets; other connections do not exist."""
        near, outputs = logits[..., :{reach}] * self.reached, logits[..., {reach}:]
        every = near.new_zeros(*near.shape[:-1], {hidden})
        return torch.cat([every.scatter_add(-1, self.targets.expand_as(near), near), outputs], -1)
'''


def core_source(sheet: SourceSheet, core: HCore, iterations: int, name: str, *, length: int | None = None) -> str:
    """Add the class of a core; returns its name.

    Args:
        sheet: The file.
        core: The core, in evaluation mode.
        iterations: T.
        name: Wanted name.
        length: Number of positions S where it is the same in every call; None where it is not.

    Raises:
        UsageError: A part without source, or the inference mode ``budget`` where S varies.
    """
    if isinstance(core, CarriedCore):
        return carried_source(sheet, core, iterations, name)
    writer = _Core(sheet, core, iterations, length)
    return sheet.write(writer.key(), name, lambda free: "\n".join(writer.lines(free)))


class _Core:
    def __init__(self, sheet: SourceSheet, core: HCore, iterations: int, length: int | None) -> None:
        self.sheet, self.core, self.iterations, self.length = sheet, core, iterations, length
        self.structure = core.structure
        self.hidden, self.outputs = core.hidden_count, core.output_count
        self.routers = cast("list[Router]", list(core.routers))
        self.input_routers = cast("list[Router]", list(core.input_routers))
        self.births = {place: float(factor) for place, factor in core.births.items()}
        self.embedding = embedding_source(sheet, core.embedding)
        self.absent = self.structure.passes(self.outputs) if self.structure.own else ()
        self.silent = core.may_be_silent or bool(self.absent)
        self.varied = core.per_position and core.positions_may_differ
        self.fixed = any(router.constant is not None for router in [*self.routers, *self.input_routers])

    def key(self) -> tuple[object, ...]:
        core = self.core
        settings = (core.alpha, core.alpha_rate, core.inference.model_dump_json(), str(self.births), self.iterations)
        return ("core", self.structure.model_dump_json(), core.input_count, core.output_count, self.length, *settings)

    def lines(self, name: str) -> Iterator[str]:
        """The text of the class, in pieces."""
        kept = self._kept()
        gate = gate_source(self.sheet, self.structure.router.gate)
        self.sheet.add(REAL_POSITIONS)
        yield from self._head(name)
        yield ""
        yield from self._forward(kept)
        if self.births:
            fixed = f"\n            weights = {_FIXED}" if self.fixed else ""
            yield _BORN.format(gate=gate, argument=", fixed" if self.fixed else "", fixed=fixed).rstrip()
        elif self.fixed:
            yield _OPENED.format(gate=gate, fixed=_FIXED).rstrip()
        yield (_SOME_RUN if self.silent else _ALL_RUN).rstrip()
        yield _RECEIVE.format(whole=_WHOLE if self.varied else "").rstrip()
        heads = {router.head for router in [*self.routers, *self.input_routers]}
        yield _LOGITS.format(widened=_WIDENED if heads & {"constant", "independent"} else "").rstrip()
        if self.structure.window is not None:
            yield _SPREAD.format(reach=2 * self.structure.window + 1, hidden=self.hidden).rstrip()

    # Its parts

    def _head(self, name: str) -> Iterator[str]:
        structure, core, sheet = self.structure, self.core, self.sheet
        layers = [layer_source(spec, sheet, structure.width, causal=structure.causal) for spec in structure.hidden]
        where = "position" if core.per_position else "sample"
        sizes = AggregationSizes(
            structure.width,
            core.input_count,
            self.hidden,
            self.hidden + self.outputs,
            core.per_position,
            structure.normaliser,
        )
        yield f"class {name}(nn.Module):"
        yield _DOCSTRING.format(count=self.hidden, where=where, outputs=self.outputs)
        yield ""
        yield "    def __init__(self):"
        yield "        super().__init__()"
        yield f"        self.iterations = {self.iterations}  # T, which may be changed"
        yield f"        self.layers = nn.ModuleList({listed(layers, 8)})"
        for label, routers in (("routers", self.routers), ("input_routers", self.input_routers)):
            yield f"        self.{label} = nn.ModuleList({listed([router_source(sheet, one) for one in routers], 8)})"
        if self.embedding is not None:
            yield f"        self.embedding = {self.embedding}"
        yield f"        self.aggregation = {structure.aggregation.source(sheet, sizes)}"
        if core.division is not None:
            yield f"        self.division = nn.Parameter(torch.empty({len(core.division)}))"
        for label, legal, of_input in (
            ("legal_inputs", core.legal_input, True),
            ("legal", core.legal_hidden, False),
        ):
            made = self._legal(cast(Tensor, legal), of_input)
            yield f'        self.register_buffer("{label}", {made}, persistent=False)'
        if self.fixed:
            for label, routers in (("fixed_inputs", self.input_routers), ("fixed", self.routers)):
                values = ", ".join(
                    'float("nan")' if one.constant is None else repr(float(one.constant)) for one in routers
                )
                yield f'        self.register_buffer("{label}", torch.tensor([{values}]), persistent=False)'
        if structure.window is not None:
            places, there = self._offsets()
            yield f'        self.register_buffer("targets", torch.tensor({places}), persistent=False)'
            yield f'        self.register_buffer("reached", {self._tables([torch.tensor(there)])}, persistent=False)'

    def _legal(self, legal: Tensor, of_input: bool) -> str:
        """The expression of the connections that exist: of all stages of a birth, and of each pass in front of them."""
        each = []
        for absent in self.absent or ((),):
            without = {**self.births, **dict.fromkeys(absent, 0.0)}
            tables = [there for _, there in stages(legal, without, of_input=of_input)]
            each.append(self._tables(tables, stacked=bool(self.births)))
        return f"torch.stack([{', '.join(each)}])" if self.absent else each[0]

    def _tables(self, tables: Sequence[Tensor], *, stacked: bool = False) -> str:
        """The expression of a table of booleans, or of several one behind the other."""
        texts = [table_source(self.sheet, one) for one in tables]
        return f"torch.stack([{', '.join(texts)}])" if stacked else texts[0]

    def _offsets(self) -> tuple[list[list[int]], list[list[bool]]]:
        """For each layer and offset of its router: the target, and whether there is one."""
        structure, count = self.structure, self.hidden
        window = structure.window or 0
        enabled = [place for place in range(count) if place not in structure.disabled]
        live, row, number = len(enabled), [], -1
        for place in range(count):
            number += place not in structure.disabled
            row.append(max(number, 0))
        targets, there = [], []
        for place in range(count):
            wanted = [row[place] + offset for offset in range(-window, window + 1)]
            targets.append([enabled[min(max(one, 0), live - 1)] for one in wanted])
            there.append([0 <= one < live for one in wanted])
        return targets, there

    def _kept(self) -> str | None:
        core = self.core
        if not core.hard:
            return None
        budget = None
        if core.inference.mode == "budget":
            if self.length is None:
                raise UsageError(
                    "the inference mode budget has no source for texts: prices of layers depend on the number of"
                    " tokens; take --to pt2, or another mode."
                )
            budget = layer_flops(self.structure, self.length), self.iterations
        return kept_source(self.sheet, core.inference, self.hidden, budget)

    # A pass

    def _open(self, legal: str, fixed: str, t: str) -> str:
        gate = f"open_{self.structure.router.gate}"
        table = f"self.{legal}[number]" if self.absent else f"self.{legal}"
        if not self.fixed and not self.births:
            return f"{gate}(logits, {alpha_source(self.core, t)}, {table})"
        more = f", self.{fixed}" if self.fixed else ""
        return f"self.opened(logits, {alpha_source(self.core, t)}, {table}{more}{self._shares(legal)})"

    def _shares(self, legal: str) -> str:
        if not self.births:
            return ""
        table = self.core.legal_input if legal == "legal_inputs" else self.core.legal_hidden
        shares = [
            float(share) for share, _ in stages(cast(Tensor, table), self.births, of_input=legal == "legal_inputs")
        ]
        return f", {tuple(shares)}"

    def _forward(self, kept: str | None) -> Iterator[str]:
        hidden = self.hidden
        keep = f"{kept}(weights)" if kept else "weights"
        size = hidden + self.outputs
        yield f"    def forward(self, values, masks{', number' if self.absent else ''}):"
        yield (_ABOUT_A_PASS if self.absent else _ABOUT)
        yield f"        logits = self.logits(self.input_routers, values, masks, {size})"
        yield f"        weights = {self._open('legal_inputs', 'fixed_inputs', '0')}"
        yield "        if masks is not None:"
        yield "            weights = weights * masks.any(-1)[:, None, :, None]  # an input without real positions"
        yield f"        weights = weights[..., {hidden}:] if self.iterations == 0 else {keep}"
        yield "        x, masks = self.receive(values, weights, masks, True)"
        yield "        inflow = weights.sum(-2)"
        yield from indented("\n".join(self._first()), 8).splitlines()
        yield "        for t in range(self.iterations):"
        yield from indented("\n".join(self._iteration(keep)), 12).splitlines()

    def _first(self) -> Iterator[str]:
        division, outputs = self.structure.output_division, self.outputs
        yield f"y, y_masks = x[:, -{outputs}:], None if masks is None else masks[:, -{outputs}:]"
        if division == "learned":
            yield "share = self.division[0].exp()"
            yield "y, total = y * share, share"
            yield "yield y / total, y_masks"
        else:
            yield "yield y, y_masks"

    def _iteration(self, keep: str) -> Iterator[str]:
        structure, hidden, outputs = self.structure, self.hidden, self.outputs
        yield f"x, inflow = x[:, :{hidden}], inflow[..., :{hidden}]"
        yield f"masks = None if masks is None else masks[:, :{hidden}]"
        if structure.iteration_embedding in ("input", "film"):
            yield "x = self.embedding(x, t)"
        yield f"outputs = self.outputs(x, masks{', (inflow > 0).any(1)' if self.silent else ''})"
        windowed = structure.window is not None
        reach = 2 * (structure.window or 0) + 1 if windowed else hidden
        logits = f"self.logits(self.routers, outputs, masks, {reach + outputs})"
        yield f"logits = self.spread({logits})" if windowed else f"logits = {logits}"
        yield f"weights = {self._open('legal', 'fixed', 't')}"
        if structure.inflow_gate:
            factors = ""
            if self.births:
                values = [max(self.births.get(place, 1.0), TINY) for place in range(hidden)]
                factors = f"(inflow / torch.tensor({values}, device=x.device))"
            yield f"weights = weights * {factors or 'inflow'}.clamp(max=1.0).unsqueeze(-1)"
        elif self.silent:
            yield "weights = weights * (inflow > 0).unsqueeze(-1)"
        yield f"weights = weights[..., {hidden}:] if t == self.iterations - 1 else {keep}"
        if structure.iteration_embedding == "message":
            yield "messages = self.embedding(outputs, t)"
            yield "if masks is not None:"
            yield "    messages = messages * masks.unsqueeze(-1)"
            yield "x, masks = self.receive(messages, weights, masks, False)"
        else:
            yield "x, masks = self.receive(outputs, weights, masks, False)"
        yield "inflow = weights.sum(-2)"
        yield from self._said()

    def _said(self) -> Iterator[str]:
        division, outputs = self.structure.output_division, self.outputs
        if division == "last":
            yield f"yield x[:, -{outputs}:], None if masks is None else masks[:, -{outputs}:]"
            return
        if division == "learned":
            yield "share = self.division[min(t + 1, len(self.division) - 1)].exp()"
            yield f"y, total = y + x[:, -{outputs}:] * share, total + share"
        else:
            yield f"y = y + x[:, -{outputs}:]"
        yield f"y_masks = None if masks is None or y_masks is None else y_masks | masks[:, -{outputs}:]"
        divisor = {"learned": "total", "t": "(t + 1)", "t_plus_1": "(t + 2)"}[division]
        yield f"yield y / {divisor}, y_masks"
