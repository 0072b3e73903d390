"""The core of an H-Model with a carried stream.

Every hidden layer has a state X. An addressed layer updates its state and sends the result on; what it sends replaces
the state of the layers that it addresses. Nobody else runs, in training as at inference, so that there is nothing to
harden afterwards. All work on messages is done for the at most M active layers of a sample, in *slots*.

Source: docs/spec/h_model.md#the-carried-stream.

Legend: B samples, S positions, d width, I inputs, H hidden layers, O outputs, N = H + O, M active layers at most, K
sources (I inputs or M slots), T iterations; P is 1, or S where connections are decided at each position.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.aggregations.module import at_positions, weighted_sum
from evodevo.h_model.carried.births import factors, living, unborn
from evodevo.h_model.carried.connections import Connections, connect, given
from evodevo.h_model.carried.imitation import naming_loss
from evodevo.h_model.carried.load import RoutedLoad
from evodevo.h_model.carried.router import Apart, SharedRouter
from evodevo.h_model.core import HCore, RoutingState, StepTrace, Streams
from evodevo.networks.routing import losses
from evodevo.networks.routing.gates import widened
from evodevo.networks.routing.pools import Pooling, masked_mean
from evodevo.operators.base import full_precision


@dataclass(frozen=True)
class CarriedState(RoutingState):
    """State of a pass between two iterations; ``x``, ``inflow`` and ``masks`` are those of the hidden layers alone.

    Attributes:
        chosen: Hidden layer in each slot, (B, P, M); one without inflow is not active.
        load: What the loss on balance has seen so far.
        real: Positions that some input has, (B, S); None where all are.
        routes: Hidden layer of each sample in each iteration, (B, T), where routes are given; None where the router
            decides.
    """

    chosen: Tensor = field(default_factory=lambda: torch.zeros(0))
    load: RoutedLoad = field(default_factory=RoutedLoad)
    real: Tensor | None = None
    routes: Tensor | None = None

    def select(self, rows: Tensor) -> CarriedState:
        """See ``RoutingState``."""
        kept = cast(CarriedState, super().select(rows))
        return replace(
            kept,
            chosen=self.chosen[rows],
            real=None if self.real is None else self.real[rows],
            routes=None if self.routes is None else self.routes[rows],
        )

    def target(self, t: int) -> Tensor | None:
        """The given layer of iteration t, (B,); beyond the last one it is used again."""
        return None if self.routes is None else self.routes[:, min(t, self.routes.shape[1] - 1)]


class CarriedCore(HCore):
    """Hidden layers with one router for all; arguments and attributes as in ``HCore``.

    Births, gates and ``level`` go with a router alone: birth factors are factors in its softmax, a gate is one of the
    relative strength r of its layer, and under ``level`` each source spreads what it keeps over all layers, which all
    run then.

    Attributes:
        router: The router; None where routes are given.
        imitation: Weight of the loss by which a router learns to name the layers of routes that are given all the same.
    """

    router: SharedRouter | None
    imitation = 1.0

    def _add_routers(self) -> None:
        structure = self.structure
        settings, count = structure.carried, len(structure.hidden)
        self.routers, self.input_routers = nn.ModuleList(), nn.ModuleList()
        self.router = None
        if settings.routes is not None:
            return
        self.router = SharedRouter(
            Pooling(structure.pool, structure.width),
            structure.width,
            count + self.output_count,
            self.input_count + count if settings.source_bias else 0,
            structure.iterations + 1 if settings.iteration_bias else 0,
            structure.iterations + 1 if settings.iteration_router else 0,
            apart=Apart(structure.owned, self.input_count),
        )

    def heads(self) -> list[nn.Linear]:
        """See ``HCore``."""
        return [] if self.router is None else self.router.all_maps()

    @property
    def may_be_silent(self) -> bool:
        """See ``HCore``."""
        return True

    @property
    def positions_may_differ(self) -> bool:
        """See ``HCore``."""
        return True

    @property
    def may_stream(self) -> bool:
        """See ``HCore``; states of layers hold which positions these know."""
        return self.per_position

    # A pass

    def begin(
        self,
        values: Tensor,
        masks: Tensor | None,
        total: int,
        *,
        record: list[StepTrace] | None = None,
        streams: Streams | None = None,
        routes: Tensor | None = None,
    ) -> CarriedState:
        """See ``HCore``. Outputs begin as the mean of the inputs."""
        if routes is not None and (self.births or self.gates is not None or self.level):
            raise UsageError("given routes lead to a layer however far it is born; births and probes need a router.")
        batch, inputs, length, width = values.shape
        positions, hidden = length if self.per_position else 1, self.hidden_count
        kept = self._drawn_layers(values.device)
        shares = values.new_ones(batch, positions, inputs, 1)
        if masks is not None:
            here = masks.transpose(1, 2) if self.per_position else masks.any(-1).unsqueeze(1)
            shares = here.unsqueeze(-1).to(values.dtype)
        first = shares.expand(-1, -1, -1, self.output_count)
        y, _ = _mean(values, first, masks)
        first = first / first.sum(-2, keepdim=True).clamp(min=1.0)
        flow = CarriedState(
            x=values.new_zeros(batch, hidden, length, width),
            inflow=shares.new_zeros(batch, positions, hidden),
            masks=self._no_positions(values, masks),
            y=y,
            y_masks=None if masks is None else masks.any(1, keepdim=True).expand(-1, self.output_count, -1),
            weight=1.0,
            total=total,
            kept=kept,
            record=record,
            chosen=torch.zeros(batch, positions, self._cap, dtype=torch.long, device=values.device),
            real=None if masks is None else masks.any(1),
            routes=routes,
        )
        if total == 0:
            if record is not None:
                record.append(StepTrace(first, first.sum(-2)))
            return flow
        places = torch.arange(inputs, device=values.device)
        logits = self._read(values, masks, places, 0)
        legal = self._legal(cast(Tensor, self.legal_input), kept)
        links = self._connect(logits, shares.squeeze(-1), legal, 0, flow.target(0))
        flow = self._receive(flow, values, links, masks)
        # Layers that run by slot are not grouped; else, of many samples each has its own layers, and stacking is lost.
        if streams is None and not self._by_slot:
            flow = replace(flow, cache=self.runner.prepare(self.layers, flow.x))
        if record is not None:
            told = torch.cat([self._scattered(links), first.to(links.hidden.dtype)], -1)
            record.append(StepTrace(told, told.sum(-2)))
        return self._judge(flow, links, logits, None, shares.squeeze(-1))

    def iterate(self, flow: RoutingState, *, streams: Streams | None = None) -> CarriedState:
        """See ``HCore``: the addressed layers update their states and send them on."""
        assert isinstance(flow, CarriedState)
        t, chosen = flow.t, flow.chosen
        inflow = flow.inflow.gather(-1, chosen)
        gate = inflow.clamp(max=1.0)
        masks = self._slot_masks(flow, inflow)
        stayed = _slots(flow.x, chosen)
        seen = self.embedding.on_input(stayed, t)
        # m = X + g (L(X) - X) + e
        change = self._made(flow, seen, masks, inflow, streams) - seen
        messages = stayed + gate.transpose(1, 2).unsqueeze(-1).to(change.dtype) * change
        messages = self.embedding.on_message(messages, t)
        if masks is not None:
            messages = messages * masks.unsqueeze(-1)
        logits = self._read(messages, masks, chosen + self.input_count, t + 1)
        legal = self._legal(cast(Tensor, self.legal_hidden), flow.kept)
        strength = self._gated(_relative(gate), chosen)
        links = self._connect(logits, strength, None if legal is None else legal[chosen], t, flow.target(t + 1))
        last = t == flow.total - 1
        after = replace(flow, y=self._answered(flow, messages, links, masks), t=t + 1)
        if not last:
            after = self._receive(after, messages, links, masks)
        if flow.record is not None:
            told = torch.cat([self._scattered(links) * (not last), links.outputs], -1)
            flow.record.append(self._traced(flow, told, messages, masks, last=last))
        return self._judge(after, None if last else links, logits, chosen, strength)

    def answer(self, flow: RoutingState) -> Tensor:
        """See ``HCore``: Y, (B, O, S, d)."""
        return flow.y

    # Its parts

    @property
    def _living(self) -> int:
        """Number of hidden layers that the pass has; of those that are others' own it has none."""
        return self.hidden_count - len(self.absent)

    @property
    def _most(self) -> int:
        return min(self.structure.carried.most, self._living)

    @property
    def _cap(self) -> int:
        """Number of slots, M; H where all are addressed alike."""
        return self.hidden_count if self.level else self._most

    @property
    def _by_slot(self) -> bool:
        """Whether layers run on the slots alone: each sample or position has at most M, which are fewer than all."""
        return self._cap < self._living

    def _made(
        self, flow: CarriedState, seen: Tensor, masks: Tensor | None, inflow: Tensor, streams: Streams | None
    ) -> Tensor:
        """Outputs of the layers in the slots, (B, M, S, d), for their inputs there; 0 of those without inflow."""
        if self._by_slot and not self.per_position:
            return self.runner.run_slots(self.layers, seen, masks, flow.chosen[:, 0], inflow[:, 0] > 0)
        every = self.embedding.on_input(flow.x, flow.t)
        if streams is not None:
            known = cast(Tensor, flow.masks)
            return _slots(self.runner.run_stream(self.layers, every, known, streams.layers[flow.t]), flow.chosen)
        if self._by_slot:
            return self.runner.run_positions(self.layers, every, cast(Tensor, flow.masks), flow.chosen, inflow > 0)
        active = (flow.inflow > 0).any(1)
        return _slots(self.runner.run(self.layers, every, flow.masks, active, None, flow.cache), flow.chosen)

    def _no_positions(self, values: Tensor, masks: Tensor | None) -> Tensor | None:
        """No layer has been addressed at any position, (B, H, S); None where positions never differ."""
        if masks is None and not self.per_position:
            return None
        shape = (values.shape[0], self.hidden_count, values.shape[2])
        return torch.zeros(shape, dtype=torch.bool, device=values.device)

    def _legal(self, table: Tensor, kept: Tensor | None) -> Tensor | None:
        """Connections that may exist, with layer dropout: (sources, N); None where all may."""
        structure, absent = self.structure, unborn(self.births)
        whole = structure.self_routing and not structure.disabled and structure.window is None and not absent
        if kept is None and whole:
            return None
        if absent:
            table = table.clone()
            table[:, absent] = False
        return table if kept is None else table & torch.cat([kept, kept.new_ones(self.output_count)])

    def _gated(self, strength: Tensor, chosen: Tensor) -> Tensor:
        """r times the gate of the layer in each slot: it is a factor of all connections from that layer."""
        return strength if self.gates is None else strength * self.gates[chosen].to(strength.dtype)

    def _read(self, messages: Tensor, masks: Tensor | None, sources: Tensor, moment: int) -> Tensor | None:
        if self.router is None:
            return None
        with full_precision(messages.device):
            # Routing is decided in float32 at least, so that it is decided alike in every precision.
            precise = messages.to(torch.promote_types(messages.dtype, torch.float32))
            logits: Tensor = self.router(precise, masks, sources, moment)
            return logits

    def _connect(
        self, logits: Tensor | None, strength: Tensor, legal: Tensor | None, t: int, target: Tensor | None
    ) -> Connections:
        if target is not None:
            said = None if logits is None else torch.sigmoid(logits[..., self.hidden_count :] / self.alpha_at(t))
            return given(target, self.hidden_count, self.output_count, strength, said)
        assert logits is not None, "a model without given routes has a router"
        most, hidden = self._most, self.hidden_count
        m, factor = min(self.structure.carried.m, most), factors(self.births, hidden, widened(logits))
        with full_precision(logits.device):
            return connect(logits, hidden, strength, legal, self.alpha_at(t), m, most, factor=factor, level=self.level)

    def _slot_masks(self, flow: CarriedState, inflow: Tensor) -> Tensor | None:
        """Real positions of the message in each slot, (B, M, S)."""
        if self.per_position:
            return (inflow > 0).transpose(1, 2)
        return None if flow.masks is None else _slots(flow.masks.unsqueeze(-1), flow.chosen).squeeze(-1)

    def _receive(self, flow: CarriedState, messages: Tensor, links: Connections, masks: Tensor | None) -> CarriedState:
        """The states of the layers that are addressed now; the others keep theirs."""
        mean, total = _mean(messages, links.hidden, masks)
        there = total > 0
        before = _slots(flow.x, links.chosen)
        x = _put(flow.x, links.chosen, torch.where(there.unsqueeze(-1), mean.to(before.dtype), before))
        known = flow.masks
        if known is not None:
            # Addressed now or earlier: a layer never reads positions at which it was not.
            had = _slots(known.unsqueeze(-1), links.chosen).squeeze(-1)
            known = _put(known.unsqueeze(-1), links.chosen, (had | there).unsqueeze(-1)).squeeze(-1)
        inflow = torch.zeros_like(flow.inflow, dtype=links.hidden.dtype).scatter(-1, links.chosen, links.inflow)
        return replace(flow, x=x, inflow=inflow, masks=known, chosen=links.chosen)

    def _answered(self, flow: CarriedState, messages: Tensor, links: Connections, masks: Tensor | None) -> Tensor:
        """Y <- (1 - b) Y + b mean, with b = min(1, inflow of the output)."""
        mean, total = _mean(messages, links.outputs, masks)
        share = total.clamp(max=1.0).unsqueeze(-1).to(flow.y.dtype)
        return flow.y + share * (mean.to(flow.y.dtype) - flow.y)

    def _judge(
        self,
        flow: CarriedState,
        links: Connections | None,
        logits: Tensor | None,
        chosen: Tensor | None,
        strength: Tensor,
    ) -> CarriedState:
        """The weighted losses on routing, with those of one more step; ``links`` is None where none go to layers."""
        wanted = self.structure.regularisation
        if not self.training or logits is None:
            return flow
        penalties, load = dict(flow.penalties), flow.load
        if flow.routes is not None:
            if links is not None:
                named = naming_loss(logits[..., : self.hidden_count], links.chosen, strength)
                penalties["routes"] = penalties.get("routes", 0.0) + self.imitation * named / flow.total
            return replace(flow, penalties=penalties)
        if wanted.z:
            penalties["z"] = penalties.get("z", 0.0) + wanted.z * losses.z_loss(self._present(logits, -1))
        if wanted.balance and links is not None:
            load = load.plus(links.dense, links.chosen, links.inflow > 0, flow.real if self.per_position else None)
            if flow.t >= flow.total - 1:  # nothing is decided after that
                layers = living(self.births, self.hidden_count, self.structure.disabled)
                penalties["balance"] = wanted.balance * load.loss(layers)
        if wanted.self_routing and links is not None and chosen is not None:
            own = (links.chosen.unsqueeze(-2) == chosen.unsqueeze(-1)) * links.hidden
            mean = own.sum((-1, -2)).mean()
            penalties["self_routing"] = penalties.get("self_routing", 0.0) + wanted.self_routing * mean
        return replace(flow, penalties=penalties, load=load)

    # For a trace

    def _scattered(self, links: Connections) -> Tensor:
        """The connections to hidden layers over all of these, (B, P, K, H)."""
        every = links.hidden.new_zeros(*links.hidden.shape[:-1], self.hidden_count)
        return every.scatter(-1, links.chosen.unsqueeze(-2).expand_as(links.hidden), links.hidden)

    def _traced(
        self,
        flow: CarriedState,
        told: Tensor,
        messages: Tensor,
        masks: Tensor | None,
        *,
        last: bool,
    ) -> StepTrace:
        """Slots spread over all hidden layers."""
        batch, hidden = messages.shape[0], self.hidden_count
        active = (flow.inflow > 0).any(1)
        weights = told.new_zeros(*told.shape[:2], hidden, told.shape[-1])
        weights = weights.scatter(-2, flow.chosen.unsqueeze(-1).expand_as(told), told)
        every = messages.new_zeros(batch, hidden, *messages.shape[2:])
        every = _put(every, flow.chosen, messages).detach()
        if masks is not None:
            known = _put(torch.zeros_like(every[..., :1], dtype=torch.bool), flow.chosen, masks.unsqueeze(-1)).squeeze(
                -1
            )
        else:
            known = None
        kept = weights[..., hidden:] if last else weights
        return StepTrace(
            kept, kept.sum(-2), every.norm(dim=-1) * active.unsqueeze(-1), active, flow.rows, masked_mean(every, known)
        )


def _relative(gate: Tensor) -> Tensor:
    """r = g over the largest g of the sample, (..., M): a layer with little inflow counts little beside others."""
    largest = gate.amax(-1, keepdim=True)
    return gate / torch.where(largest > 0, largest, torch.ones_like(largest))


def _mean(messages: Tensor, weights: Tensor, masks: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weighted mean of messages (B, K, S, d) with weights (B, P, K, N), and the sum of weights at each position.

    Returns:
        (B, N, S, d), 0 where no source has a weight, and (B, N, P or S).
    """
    total = at_positions(weights, masks).sum(-2)
    divisor = torch.where(total > 0, total, torch.ones_like(total))
    if masks is None:
        # Weights are far fewer numbers than the messages.
        mean = weighted_sum(messages, (weights / divisor.unsqueeze(-2)).to(messages.dtype))
        return mean, total.transpose(1, 2)
    summed = weighted_sum(messages, weights.to(messages.dtype))
    return summed / divisor.transpose(1, 2).unsqueeze(-1).to(summed.dtype), total.transpose(1, 2)


def _slots(values: Tensor, chosen: Tensor) -> Tensor:
    """(B, H, S, d) and the layer in each slot (B, P, M) -> (B, M, S, d)."""
    return values.gather(1, _index(values, chosen))


def _put(values: Tensor, chosen: Tensor, slots: Tensor) -> Tensor:
    """``values`` (B, H, S, d) with those in the slots (B, M, S, d) replaced."""
    return values.scatter(1, _index(values, chosen), slots)


def _index(values: Tensor, chosen: Tensor) -> Tensor:
    """(B, P, M) -> (B, M, S, d)."""
    return chosen.transpose(1, 2).unsqueeze(-1).expand(-1, -1, values.shape[2], values.shape[3])
