"""The core of the H-Model: hidden layers with routers that set their connections, per sample and per iteration.

``begin`` routes the inputs, ``iterate`` runs every hidden layer once, ``answer`` returns what the outputs have
received. Between two iterations the whole state is a ``RoutingState``.

Source: docs/spec/h_model.md#forward-pass; equations 1-3.

Legend: B samples, S positions, d width, I inputs, H hidden layers, O outputs, N = H + O targets, K sources (I or H),
T iterations; P is 1, or S where connections are decided at each position.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.aggregations.base import AggregationSizes
from evodevo.h_model.births import as_if_born, levelled, stages
from evodevo.h_model.cost import layer_flops
from evodevo.h_model.router import Router, start_biases
from evodevo.h_model.router_group import RouterGroup
from evodevo.h_model.runners.choice import build_runner
from evodevo.h_model.runners.loop import Active, LayerRunner, PassCache
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.iteration_embedding import IterationEmbedding
from evodevo.networks.routing import losses
from evodevo.networks.routing.gates import iteration_alpha, open_gates
from evodevo.networks.routing.pools import Pooling, masked_mean
from evodevo.networks.routing.skipping import harden
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.base import full_precision
from evodevo.operators.layers.base import RouterHead
from evodevo.operators.layers.build import build_layer


@dataclass(frozen=True)
class StepTrace:
    """Record of one iteration (or of the input step), for a trace.

    Attributes:
        weights: Connection weights, (B, P, K, N), or (B, P, K, O) in the last iteration.
        inflow: Sum of the weights over sources, (B, P, N) or (B, P, O).
        norms: Norms of the messages, (B, H, S); None for the input step.
        called: True where a layer was run for a sample, (B, H); None for the input step.
        rows: Indices in the batch of the samples that had not halted; None for all.
        mean_messages: Messages as means over real positions, (B, H, d); None for the input step.
    """

    weights: Tensor
    inflow: Tensor
    norms: Tensor | None = None
    called: Tensor | None = None
    rows: Tensor | None = None
    mean_messages: Tensor | None = None


@dataclass(frozen=True)
class RoutingState:
    """State of a pass between two iterations.

    Attributes:
        x: Aggregated input of each target, (B, N, S, d).
        inflow: Sum of the weights into each target, (B, P, N).
        masks: Real positions of each target, (B, N, S); None where all are.
        y: Sum of the outputs' inputs, weighted according to ``output_division``, (B, O, S, d).
        y_masks: Real positions of ``y``, (B, O, S); None where all are.
        weight: Sum of the weights of the terms in ``y``.
        t: Number of iterations done.
        total: Number of iterations of the whole pass, T.
        kept: Hidden layers that take part in this training step, (H,); None for all.
        penalties: Losses on the routing so far by name, summed over steps and weighted.
        record: List of moments, where a trace is wanted; None otherwise.
        rows: Indices in the batch of the samples of this flow; None before any has halted.
        cache: Tensors that the runner has prepared for this pass.
        routers: Routers of the hidden layers as one, where they are alike; None otherwise.
    """

    x: Tensor
    inflow: Tensor
    masks: Tensor | None
    y: Tensor
    y_masks: Tensor | None
    weight: Tensor | float
    t: int = 0
    total: int = 0
    kept: Tensor | None = None
    penalties: dict[str, Tensor] = field(default_factory=dict)
    record: list[StepTrace] | None = None
    rows: Tensor | None = None
    cache: PassCache | None = None
    routers: RouterGroup | None = None

    def select(self, rows: Tensor) -> RoutingState:
        """The same flow for some samples only."""
        places = torch.arange(self.x.shape[0], device=self.x.device) if self.rows is None else self.rows
        return replace(
            self,
            x=self.x[rows],
            inflow=self.inflow[rows],
            masks=None if self.masks is None else self.masks[rows],
            y=self.y[rows],
            y_masks=None if self.y_masks is None else self.y_masks[rows],
            rows=places[rows],
        )

    def detach(self) -> RoutingState:
        """The same flow, cut off from the graph."""
        weight = self.weight.detach() if isinstance(self.weight, Tensor) else self.weight
        return replace(self, x=self.x.detach(), inflow=self.inflow.detach(), y=self.y.detach(), weight=weight)


@dataclass
class Streams:
    """State of the hidden layers in step-by-step generation.

    Attributes:
        layers: State of each hidden layer, by iteration.
        sums: Running sum and count that ``prefix_mean`` routers read, by (iteration, source); iteration 0 is the input
            step, then 1 to T.
    """

    layers: list[list[dict[str, Any]]]
    sums: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)


class HCore(nn.Module):
    """Hidden layers with their routers.

    Args:
        structure: Everything but inputs and outputs.
        inputs: Number of inputs, I, at least 1.
        outputs: Number of outputs, O, at least 1.

    Attributes:
        alpha: Temperature that overrides the structure's, in training and at inference; None follows the structure.
        alpha_rate: Factor of the temperature per iteration.
        inference: Connections that count in evaluation mode; all count in training.
        births: Birth factor in [0, 1] by index of a hidden layer (``h_model/births.py``); 1 where none is given.
            With 0 it is as if it were not there, and in evaluation it is not run.
        absent: Hidden layers that are not run, in training neither; their birth factors are 0.
        gates: Factors of the messages of hidden layers, (H,), or None: meta-gradients differentiate by them.
        level: Whether all connections to hidden layers are equal, with the same sum: the control of a probe.
        runner: Runs the hidden layers of one iteration.
    """

    composite = True

    def __init__(self, structure: HModelStructure, inputs: int, outputs: int) -> None:
        super().__init__()
        if outputs < 1:
            raise UsageError("an H-Model needs at least one output.")
        if inputs < 1:
            raise UsageError("an H-Model needs at least one input.")
        self.structure = structure
        self.input_count, self.output_count = inputs, outputs
        width, count = structure.width, len(structure.hidden)
        self.layers = nn.ModuleList(build_layer(spec, width, causal=structure.causal) for spec in structure.hidden)
        self.per_position = structure.causal or structure.pool in ("token", "prefix_mean")
        self._add_routers()
        self.embedding = IterationEmbedding(structure.iterations, width, structure.iteration_embedding)
        self.aggregation = structure.aggregation.build(
            AggregationSizes(width, inputs, count, count + outputs, self.per_position, structure.normaliser)
        )
        learned = structure.output_division == "learned"
        self.division = nn.Parameter(torch.zeros(structure.iterations + 1)) if learned else None
        self.alpha: float | None = None
        self.alpha_rate = structure.alpha_rate
        self.inference: InferenceStructure = structure.inference
        self.births: dict[int, float | Tensor] = {}
        self.absent: tuple[int, ...] = ()
        self.gates: Tensor | None = None
        self.level = False
        self.runner: LayerRunner = build_runner("auto")
        self._share = 0.0
        self._legal_tables()

    # How it is put together

    def _add_routers(self) -> None:
        self.routers = nn.ModuleList(
            self._router(place, spec.router) for place, spec in enumerate(self.structure.hidden)
        )
        self.input_routers = nn.ModuleList(self._input_router() for _ in range(self.input_count))

    def heads(self) -> list[nn.Linear]:
        """The last linear map of every router that has one."""
        routers = cast("list[Router]", [*self.routers, *self.input_routers])
        return [router.outer for router in routers if router.outer is not None]

    @property
    def hidden_count(self) -> int:
        """Number of hidden layers, H."""
        return len(self.layers)

    def _sources(self) -> int:
        """Number of hidden layers from which a hidden layer can receive."""
        count, window = len(self.structure.hidden), self.structure.window
        reach = count if window is None else min(count, 2 * window + 1)
        return reach if self.structure.self_routing else max(reach - 1, 1)

    def _router(self, place: int, head: RouterHead | None) -> Router:
        structure = self.structure
        hidden = len(structure.hidden) if structure.window is None else 2 * structure.window + 1
        biases = start_biases(
            structure.router, structure.alpha, self._sources(), hidden, self.output_count, of_input=False
        )
        return Router(structure.router, Pooling(structure.pool, structure.width), structure.width, biases, head)

    def _input_router(self) -> Router:
        structure = self.structure
        hidden = len(structure.hidden)
        biases = start_biases(
            structure.router, structure.alpha, self._sources(), hidden, self.output_count, of_input=True
        )
        # The channel head reads channels of a layer's output; raw inputs have a head of the usual kind.
        head: RouterHead | None = "linear" if structure.router.head == "channel" else None
        return Router(structure.router, Pooling(structure.pool, structure.width), structure.width, biases, head)

    def _legal_tables(self) -> None:
        """Set the tables of allowed connections: windows, self-routing, disabled layers."""
        structure, count, outputs = self.structure, len(self.layers), self.output_count
        hidden = torch.ones(count, count + outputs, dtype=torch.bool)
        inputs = torch.ones(self.input_count, count + outputs, dtype=torch.bool)
        if structure.window is not None:
            # Neighbours are counted among enabled layers: a disabled one does not push others apart.
            places = self._row()
            live = count - len(structure.disabled)
            offset = places[None, :] - places[:, None]
            hidden[:, :count] = offset.abs() <= structure.window
            hidden[places < live - structure.window, count:] = False
            inputs[:, :count] &= places < structure.window
        if not structure.self_routing:
            hidden[torch.arange(count), torch.arange(count)] = False
        for place in structure.disabled:
            hidden[:, place] = False
            hidden[place] = False
            inputs[:, place] = False
        # Not stored: the tables follow from the structure, which a checkpoint holds.
        self.register_buffer("legal_hidden", hidden, persistent=False)
        self.register_buffer("legal_input", inputs, persistent=False)

    def _row(self) -> Tensor:
        """Index of each layer among the enabled ones, (H,); a disabled one has that of the one before it."""
        enabled = torch.ones(len(self.layers), dtype=torch.long)
        enabled[list(self.structure.disabled)] = 0
        return (enabled.cumsum(0) - 1).clamp(min=0)

    # Settings of a pass

    def set_progress(self, share: float) -> None:
        """Set the share of the training that is done, 0 to 1, for the annealing of alpha."""
        self._share = share

    @property
    def progress(self) -> float:
        """The share of the training that was set last, 0 to 1."""
        return self._share

    def alpha_at(self, t: int) -> float:
        """The temperature alpha_t."""
        start, end = self.structure.alpha, self.structure.alpha_end
        if self.alpha is not None:
            start = self.alpha
        elif end is not None:
            start = start * (end / start) ** (self._share if self.training else 1.0)
        return iteration_alpha(start, self.alpha_rate, t)

    @property
    def hard(self) -> bool:
        """Whether the connections of the inference mode count now."""
        return self.inference.mode != "dense" and not self.training

    @property
    def may_be_silent(self) -> bool:
        """Whether a layer can be without any connection to it."""
        unborn = any(not isinstance(factor, Tensor) and factor == 0 for factor in self.births.values())
        apart = bool(self.structure.disabled) or self.structure.window is not None
        return self.positions_may_differ or apart or unborn

    @property
    def positions_may_differ(self) -> bool:
        """Whether a layer can have connections at some positions of a sample and none at others."""
        return self.hard or self.structure.router.gate == "sparsemax_in"

    @property
    def may_stream(self) -> bool:
        """Whether a text may go on token by token: layers must not keep positions at which they do not run."""
        return not self.positions_may_differ

    @property
    def _alike(self) -> bool:
        """Whether all samples have the same layers: a graph can leave the others out."""
        return not self.training and not self.positions_may_differ and self.structure.window is None

    # A pass

    def run(self, values: Tensor, masks: Tensor | None = None, *, iterations: int | None = None) -> RoutingState:
        """Run all iterations, without halting. Arguments as for ``begin``."""
        total = self.structure.iterations if iterations is None else iterations
        flow = self.begin(values, masks, total)
        for _ in range(total):
            flow = self.iterate(flow)
        return flow

    def begin(
        self,
        values: Tensor,
        masks: Tensor | None,
        total: int,
        *,
        record: list[StepTrace] | None = None,
        streams: Streams | None = None,
        routes: Tensor | None = None,
    ) -> RoutingState:
        """The input step.

        Args:
            values: Inputs, (B, I, S, d).
            masks: Real positions, (B, I, S), or None.
            total: Number of iterations that follow; with 0 only connections to outputs are computed.
            record: List to which a ``StepTrace`` of every step is appended.
            streams: Running sums of routers, when the positions continue earlier ones.
            routes: The hidden layer of each sample in each iteration, (B, T), where routes are given; of a carried
                stream only.
        """
        assert routes is None, "of a carried stream"
        kept = self._drawn_layers(values.device)
        whole = total > 0 and streams is None
        logits = self._logits(self.input_routers, None, values, masks, streams, 0, windowed=False)
        legal = cast(Tensor, self.legal_input)
        if kept is not None:
            legal = legal & torch.cat([kept, kept.new_ones(self.output_count)])
        weights = self._open(self.input_routers, logits, legal, 0)
        if masks is not None:
            # An input without real positions does not contribute.
            weights = weights * masks.any(-1)[:, None, :, None]
        if total == 0:
            weights = weights[..., self.hidden_count :]
        weights = self._harden(weights, total, values.shape[2])
        x, inflow, node_masks = self._aggregate(values, weights, masks, of_input=True)
        outputs = slice(-self.output_count, None)
        share = self._term_weight(0)
        if record is not None:
            record.append(StepTrace(weights, inflow))
        return RoutingState(
            x,
            inflow,
            node_masks,
            x[:, outputs] * share,
            None if node_masks is None else node_masks[:, outputs],
            share,
            total=total,
            kept=kept,
            penalties=self._penalties({}, weights, logits, inflow, of_input=True),
            record=record,
            cache=self.runner.prepare(self.layers, x[:, : self.hidden_count]) if whole else None,
            routers=RouterGroup.of(cast("list[Router]", list(self.routers))) if whole else None,
        )

    def iterate(self, flow: RoutingState, *, streams: Streams | None = None) -> RoutingState:
        """One iteration: every hidden layer reads its input, computes its message and routes it.

        In the last one connections to hidden layers are not needed (docs/spec/h_model.md#forward-pass).

        Args:
            flow: State from ``begin`` or the iteration before.
            streams: States of the layers, when the positions continue earlier ones.
        """
        structure, hidden, t = self.structure, self.hidden_count, flow.t
        x = flow.x[:, :hidden]
        masks = None if flow.masks is None else flow.masks[:, :hidden]
        inflow = flow.inflow[..., :hidden]
        x = self.embedding.on_input(x, t)
        active = self._active(inflow)
        states = None if streams is None else streams.layers[t]
        outputs = self.runner.run(self.layers, x, masks, active, states, flow.cache)
        if masks is not None:
            outputs = outputs * masks.unsqueeze(-1)
        windowed = structure.window is not None
        logits = self._logits(self.routers, flow.routers, outputs, masks, streams, t + 1, windowed=windowed)
        legal = cast(Tensor, self.legal_hidden)
        if flow.kept is not None:
            legal = legal & torch.cat([flow.kept, flow.kept.new_ones(self.output_count)]) & flow.kept[:, None]
        weights = self._open(self.routers, logits, legal, t)
        if structure.inflow_gate:
            weights = weights * as_if_born(inflow, self.births).clamp(max=1.0).unsqueeze(-1)
        elif self.may_be_silent:
            # Without the gate a layer without connections would still send L(0); one that is not called cannot. Decided
            # where connections are, or a later position could wake a layer for an earlier one.
            weights = weights * (inflow > 0).unsqueeze(-1)
        if t == flow.total - 1:
            weights = weights[..., hidden:]
        weights = self._harden(weights, flow.total, outputs.shape[2])
        messages = self.embedding.on_message(outputs, t)
        if masks is not None:
            messages = messages * masks.unsqueeze(-1)
        inputs, inflow_after, node_masks = self._aggregate(messages, weights, masks, of_input=False)
        if flow.record is not None:
            called = active if isinstance(active, Tensor) else torch.ones_like(x[:, :, 0, 0], dtype=torch.bool)
            norms = messages.detach().norm(dim=-1)
            mean_messages = masked_mean(messages.detach(), masks)
            flow.record.append(StepTrace(weights, inflow_after, norms, called, flow.rows, mean_messages))
        y, y_masks, share = self._answer_so_far(flow, inputs, node_masks)
        return replace(
            flow,
            x=inputs,
            inflow=inflow_after,
            masks=node_masks,
            y=y,
            y_masks=y_masks,
            weight=share,
            t=t + 1,
            penalties=self._penalties(flow.penalties, weights, logits, inflow_after, of_input=False),
        )

    def answer(self, flow: RoutingState) -> Tensor:
        """The sum that the outputs have received, (B, O, S, d), divided according to ``output_division``.

        Source: docs/spec/h_model.md#outputs.
        """
        division = self.structure.output_division
        if division == "last":
            return flow.y
        if division == "learned":
            return flow.y / flow.weight
        return flow.y / (max(flow.t, 1) if division == "t" else flow.t + 1)

    # The parts of an iteration

    def _logits(
        self,
        routers: nn.ModuleList,
        together: RouterGroup | None,
        messages: Tensor,
        masks: Tensor | None,
        streams: Streams | None,
        moment: int,
        *,
        windowed: bool,
    ) -> Tensor:
        """Logits (B, P, K, N), before gates."""
        with full_precision(messages.device):
            # Routing is decided in float32 at least, so that it is decided alike in every precision.
            precise = messages.to(torch.promote_types(messages.dtype, torch.float32))
            if together is not None:
                logits = together(precise, masks)
            else:
                reach = 2 * (self.structure.window or 0) + 1 if windowed else self.hidden_count
                logits = self._one_by_one(routers, reach + self.output_count, precise, masks, streams, moment)
            return self._spread(logits) if windowed else logits

    def _one_by_one(
        self,
        routers: nn.ModuleList,
        size: int,
        messages: Tensor,
        masks: Tensor | None,
        streams: Streams | None,
        moment: int,
    ) -> Tensor:
        """Logits (B, P, K, size) where routers differ or continue a sequence; constant ones have one value for all."""
        each_layer = []
        each = messages.unbind(1)
        present = [None] * len(each) if masks is None else masks.unbind(1)
        for place, router in enumerate(cast("list[Router]", list(routers))):
            before = None
            if streams is not None and self.structure.pool == "prefix_mean":
                before = streams.sums.get((moment, place))
                streams.sums[(moment, place)] = _running(each[place], present[place], before)
            each_layer.append(router(each[place], present[place], before))
        positions = max(logits.shape[1] for logits in each_layer)
        return torch.stack([logits.expand(-1, positions, size) for logits in each_layer], 2)

    def _spread(self, logits: Tensor) -> Tensor:
        """Logits over relative offsets and outputs, spread over targets; the others are illegal anyway."""
        count, window = self.hidden_count, self.structure.window or 0
        enabled = [place for place in range(count) if place not in self.structure.disabled]
        live, order = len(enabled), torch.tensor(enabled, device=logits.device)
        targets = self._row().to(logits.device)[:, None] + torch.arange(-window, window + 1, device=logits.device)
        legal = (targets >= 0) & (targets < live)
        targets = order[targets.clamp(0, live - 1)]
        offsets, outputs = logits[..., : 2 * window + 1], logits[..., 2 * window + 1 :]
        # Offsets beyond an end were clamped to some layer; 0 added there changes nothing.
        offsets = offsets * legal
        spread = logits.new_zeros(*logits.shape[:-1], count)
        spread = spread.scatter_add(-1, targets.expand_as(offsets), offsets)
        return torch.cat([spread, outputs], -1)

    def _open(self, routers: nn.ModuleList, logits: Tensor, legal: Tensor, t: int) -> Tensor:
        weights: Tensor | None = None
        for share, there in stages(legal, self.births, of_input=routers is self.input_routers):
            part = self._opened(routers, logits, there, t)
            weights = share * part if weights is None else weights + share * part
        assert weights is not None, "shares add up to 1"
        if self.gates is not None and routers is self.routers:
            weights = weights * self.gates[:, None]
        return levelled(weights, legal, self.hidden_count) if self.level else weights

    def _opened(self, routers: nn.ModuleList, logits: Tensor, legal: Tensor, t: int) -> Tensor:
        gate = self.structure.router.gate
        with full_precision(logits.device):
            weights = open_gates(logits, gate, self.alpha_at(t), legal, noise=self.training)
        constants = [router.constant for router in cast("list[Router]", list(routers))]
        if any(value is not None for value in constants):
            fixed = torch.tensor([value is not None for value in constants], device=weights.device)
            values = torch.tensor([value or 0.0 for value in constants], dtype=weights.dtype, device=weights.device)
            weights = torch.where(fixed[:, None], values[:, None] * legal, weights)
        return weights

    def _harden(self, weights: Tensor, total: int, length: int) -> Tensor:
        if not self.hard:
            return weights
        prices = layer_flops(self.structure, length) if self.inference.mode == "budget" else ()
        hidden = weights.shape[-1] - self.output_count
        return harden(weights, hidden, self.inference, prices, total)

    def _active(self, inflow: Tensor) -> Active | None:
        """Layers with connections to them; in a graph, where all samples have the same, as one tuple; None for all."""
        if not self.may_be_silent:
            return None
        if torch.compiler.is_exporting() and self._alike:
            unborn = {place for place, factor in self.births.items() if not isinstance(factor, Tensor) and factor == 0}
            gone = unborn | {*self.structure.disabled, *self.absent}
            return tuple(place not in gone for place in range(self.hidden_count))
        if not self.training:
            return (inflow > 0).any(1)
        # Training runs all enabled layers, since gradients need the outputs of unconnected ones too.
        never = [*self.structure.disabled, *self.absent]
        if not never:
            return None
        enabled = torch.ones(self.hidden_count, dtype=torch.bool, device=inflow.device)
        enabled[never] = False
        return enabled.expand(inflow.shape[0], -1)

    def _aggregate(
        self, messages: Tensor, weights: Tensor, masks: Tensor | None, *, of_input: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Aggregated inputs of the targets, their inflow, and their real positions."""
        aggregated: Tensor = self.aggregation(messages, weights, masks, of_input=of_input)
        return aggregated, weights.sum(-2), self._node_masks(weights, masks, messages)

    def _node_masks(self, weights: Tensor, masks: Tensor | None, messages: Tensor) -> Tensor | None:
        """Real positions of each target: those of any contributor (docs/spec/h_model.md#canvas), (B, N, S)."""
        varied = weights.shape[1] > 1 and self.positions_may_differ
        if masks is None and not varied:
            return None
        if masks is None:
            masks = torch.ones(messages.shape[:3], dtype=torch.bool, device=messages.device)
        if weights.shape[1] == 1:
            # A product of counts, since booleans have no matrix product.
            connected = (weights[:, 0] > 0).to(torch.float32)
            return (connected.transpose(1, 2) @ masks.to(torch.float32)) > 0
        return ((weights > 0) & masks.transpose(1, 2).unsqueeze(-1)).any(2).transpose(1, 2)

    def _term_weight(self, t: int) -> Tensor | float:
        if self.division is None:
            return 1.0
        # Positive by exp; beyond the trained T the last weight is used again.
        return self.division[min(t, len(self.division) - 1)].exp()

    def _answer_so_far(
        self, flow: RoutingState, aggregated: Tensor, masks: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | float]:
        """y, y_masks and weight after one more iteration."""
        messages = aggregated[:, -self.output_count :]
        said_masks = None if masks is None else masks[:, -self.output_count :]
        if self.structure.output_division == "last":
            return messages, said_masks, 1.0
        share = self._term_weight(flow.t + 1)
        both = None if flow.y_masks is None or said_masks is None else flow.y_masks | said_masks
        return flow.y + messages * share, both, flow.weight + share

    # While training

    def _drawn_layers(self, device: torch.device) -> Tensor | None:
        """Layer dropout: which hidden layers take part in this step; at least one does."""
        chance = self.structure.regularisation.layer_dropout
        if not self.training or chance == 0:
            return None
        # On the CPU, so that a seed drops the same layers on every device.
        draw = torch.rand(self.hidden_count)
        # The one that is kept in any case is one that this pass has.
        draw[[*self.structure.disabled, *self.absent]] = -1.0
        kept = draw >= chance
        kept[draw.argmax()] = True
        return kept.to(device)

    def _present(self, table: Tensor, axis: int) -> Tensor:
        """A table of hidden layers along an axis, perhaps with more behind them, without those that are absent."""
        if not self.absent:
            return table
        size = table.shape[axis]
        kept = [place for place in range(size) if place not in self.absent]
        return table.index_select(axis, torch.tensor(kept, device=table.device))

    def _penalties(
        self, before: dict[str, Tensor], weights: Tensor, logits: Tensor, inflow: Tensor, *, of_input: bool
    ) -> dict[str, Tensor]:
        """The weighted losses on routing, with those of one more step added."""
        wanted, hidden = self.structure.regularisation, self.hidden_count
        if not self.training:
            return before
        reaches_hidden = weights.shape[-1] > self.output_count
        if self.absent:
            hidden -= len(self.absent)
            if not of_input:
                weights, logits = self._present(weights, -2), self._present(logits, -2)
            logits = self._present(logits, -1)
            if reaches_hidden:
                weights, inflow = self._present(weights, -1), self._present(inflow, -1)
        penalties: dict[str, Tensor] = {}
        if wanted.sparsity:
            penalties["sparsity"] = wanted.sparsity * losses.sparsity(weights)
        if wanted.z:
            penalties["z"] = wanted.z * losses.z_loss(logits)
        if wanted.balance and reaches_hidden:
            penalties["balance"] = wanted.balance * losses.balance(inflow[..., :hidden])
        if wanted.self_routing and reaches_hidden and not of_input:
            penalties["self_routing"] = wanted.self_routing * losses.self_routing(weights)
        return {
            **before,
            **{name: before[name] + value if name in before else value for name, value in penalties.items()},
        }


def _running(h: Tensor, mask: Tensor | None, before: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    """Sum and count over real positions, earlier ones included: (B, d) and (B, 1)."""
    weights = torch.ones_like(h[..., :1]) if mask is None else mask.to(h.dtype).unsqueeze(-1)
    total, count = (h * weights).sum(1), weights.sum(1)
    return (total, count) if before is None else (before[0] + total, before[1] + count)
