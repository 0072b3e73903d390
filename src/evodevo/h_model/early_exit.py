"""A pass in evaluation mode in which samples halt one by one; the batch shrinks.

Source: docs/spec/h_model.md#halting.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.h_model.core import RoutingState, StepTrace
from evodevo.h_model.parts import HModelParts, IterationOutput

Places = Mapping[str, tuple[int, int]]


def iterate_until_halted(
    model: HModelParts,
    values: Tensor,
    masks: Tensor | None,
    places: Places,
    record: list[StepTrace] | None = None,
    routes: Tensor | None = None,
) -> IterationOutput:
    """Iterate; halted samples leave the batch with their sum, divided by its own number of steps.

    A causal model decides at each position, from that position alone; a sample leaves when all of them have halted.
    """
    core, total = model.core, model.iterations
    flow = core.begin(values, masks, total, record=record, routes=routes)
    criterion = _HaltingCriterion(model, places)
    kept = _Kept(core.answer(flow), flow.y_masks)
    counts = torch.zeros(values.shape[0], dtype=torch.long, device=values.device)
    criterion.before(flow)
    for t in range(total):
        flow = core.iterate(flow)
        state, halted = criterion.after(flow)
        if t == total - 1:
            halted = torch.ones_like(halted)
        rows = torch.arange(len(halted), device=halted.device) if flow.rows is None else flow.rows
        if masks is not None and halted.shape[1] > 1:
            # Positions without an input need no answer, and so count as halted.
            halted = halted | ~masks[rows].any(1)
        kept.take(rows, state, flow.y_masks, halted)
        counts[rows] = t + 1
        live = (~halted).any(1).nonzero().squeeze(1)
        if len(live) == 0:
            break
        if len(live) < len(halted):
            flow = flow.select(live)
            criterion.select(live)
    model.halting_counts = counts.cpu()
    return IterationOutput(kept.y, kept.masks, flow)


class _Kept:
    """The answer of each position at its halting step; later ones do not change it."""

    def __init__(self, y: Tensor, masks: Tensor | None) -> None:
        self.y = y
        self.masks = masks
        self._open: Tensor | None = None

    def take(self, rows: Tensor, y: Tensor, masks: Tensor | None, halted: Tensor) -> None:
        """``halted`` is (b, P): positions of these rows that have halted in this step or before."""
        if self._open is None:
            self._open = torch.ones(self.y.shape[0], halted.shape[1], dtype=torch.bool, device=y.device)
        new = halted & self._open[rows]
        place = new[:, None, :, None]
        self.y = self.y.index_copy(0, rows, torch.where(place, y, self.y[rows]))
        if self.masks is not None and masks is not None:
            self.masks = self.masks.index_copy(0, rows, torch.where(new[:, None, :], masks, self.masks[rows]))
        self._open[rows] &= ~halted


class _HaltingCriterion:
    """After each iteration: the state by which each sample is judged, and whether it halts."""

    def __init__(self, model: HModelParts, places: Places) -> None:
        self.model = model
        self.places = places
        self.rule = model.structure.halting.rule
        self.threshold = model.structure.halting.threshold
        self._mass: Tensor | None = None
        self._mixed: Tensor | None = None
        self._logits: dict[str, Tensor] = {}

    def before(self, flow: RoutingState) -> None:
        """The answers before the first iteration, to which ``kl`` compares."""
        if self.rule == "kl":
            self._logits = self._answers(flow)

    def after(self, flow: RoutingState) -> tuple[Tensor, Tensor]:
        """The state (b, O, S, d) and whether each position halts (b, P)."""
        y = self.model.core.answer(flow)
        if self.rule == "kl":
            return y, self._steady(flow)
        assert self.model.unit is not None
        chance: Tensor = self.model.unit(y, flow.y_masks)
        mass = torch.zeros_like(chance) if self._mass is None else self._mass
        if self.rule == "act":
            last = flow.t == flow.total
            reached = mass + chance >= self.threshold
            share = torch.where(reached, 1 - mass, chance) if not last else 1 - mass
            mixed = torch.zeros_like(y) if self._mixed is None else self._mixed
            self._mixed = mixed + y * share[:, None, :, None].to(y.dtype)
            self._mass = mass + chance
            return self._mixed, reached
        # The chance of having stopped: 1 - prod (1 - p).
        self._mass = 1 - (1 - mass) * (1 - chance)
        return y, self._mass >= self.threshold

    def select(self, rows: Tensor) -> None:
        """Only these rows go on."""
        self._mass = None if self._mass is None else self._mass[rows]
        self._mixed = None if self._mixed is None else self._mixed[rows]
        self._logits = {name: logits[rows] for name, logits in self._logits.items()}

    def _answers(self, flow: RoutingState) -> dict[str, Tensor]:
        answers: dict[str, Tensor] = self.model.outputs(self.model.core.answer(flow), flow.y_masks, self.places)
        return answers

    def _steady(self, flow: RoutingState) -> Tensor:
        """Whether no answer has moved by more than the threshold, in nats."""
        now, length = self._answers(flow), flow.x.shape[2]
        steady: Tensor | None = None
        specs = self.model.output_specs
        if self.model.structure.causal:
            # An answer for the whole sample depends on later tokens; it must not decide when earlier ones are done.
            specs = tuple(spec for spec in specs if spec.kind == "tokens") or specs
        for spec in specs:
            moved = _moved(now[spec.name], self._logits[spec.name], labels=spec.kind == "labels")
            calm = moved < self.threshold
            if spec.kind == "tokens":
                begin, size = self.places[spec.of]
                calm = F.pad(calm, (begin, length - begin - size), value=True)
            else:
                calm = calm.unsqueeze(1)
            steady = calm if steady is None else steady & calm
        self._logits = now
        assert steady is not None
        return steady


def _moved(now: Tensor, before: Tensor, *, labels: bool) -> Tensor:
    """KL(now || before) over the last axis; of labels the sum over independent ones."""
    if labels:
        chance = torch.sigmoid(now)
        yes = chance * (F.logsigmoid(now) - F.logsigmoid(before))
        no = (1 - chance) * (F.logsigmoid(-now) - F.logsigmoid(-before))
        return (yes + no).sum(-1)
    log_now, log_before = now.log_softmax(-1), before.log_softmax(-1)
    return (log_now.exp() * (log_now - log_before)).sum(-1)
