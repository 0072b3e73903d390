"""The H-Model: inputs, hidden layers that choose the targets of their messages, outputs (Hospodarchuk;
docs/spec/h_model.md).

Depth is time: the hidden layers are run T times, and between two iterations every layer receives the messages addressed
to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.h_model import extension, halting, own_layers
from evodevo.h_model.core import RoutingState, StepTrace, Streams
from evodevo.h_model.early_exit import iterate_until_halted
from evodevo.h_model.extension import Change
from evodevo.h_model.own_layers import OutputGroup, output_groups, wanted_groups
from evodevo.h_model.parts import HModelParts, IterationOutput
from evodevo.h_model.trace.file import trace_to_bytes
from evodevo.h_model.trace.record import record_trace, trace_of
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.networks.base import Batch, Diagnosis, Network, Representation
from evodevo.networks.outputs import answer_losses
from evodevo.networks.routing.pools import masked_mean
from evodevo.networks.writer import States
from evodevo.operators.base import Operator
from evodevo.operators.layers.base import Layer
from evodevo.tasks.base import NO_TARGET, SampleTask, Split
from evodevo.training.precision import Precision
from evodevo.training.surgery import Origin


class HModel(HModelParts):
    """An H-Model over the inputs and outputs of a task; arguments, attributes and errors as in ``HModelParts``."""

    # Passes

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``. In evaluation mode samples stop early by the halting rule."""
        return self._answered(batch, output_groups(self.structure, self._output_names()))[0]

    def unrepresented(self) -> tuple[str, ...]:
        """See ``Network``: with halting, answers may decide how many iterations there are."""
        return ("outputs",) if self.structure.halting.rule == "none" else ()

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``: the sum that the outputs have received."""
        messages = self.inputs(batch)
        final = self._final(messages.values, messages.masks, messages.places, routes=self.routes_of(batch))
        tokens = final.y.mean(1)
        mask = None if final.masks is None else final.masks.any(1)
        return Representation(tokens, mask, masked_mean(tokens, mask))

    def loss(self, batch: Batch) -> Tensor:
        """The task's loss under the halting rule, deep supervision, and the losses on routing."""
        rule, weights = self.structure.halting, self.structure.regularisation
        every = self.training and (weights.deep_supervision > 0 or rule.rule in ("output_mass", "ponder"))
        if not every and rule.rule != "act":
            groups = output_groups(self.structure, self._output_names())
            answers, penalties = self._answered(batch, wanted_groups(groups, self.output_specs, batch))
            return _plus(self.answers_loss(answers, batch), penalties)
        return self._loss_of_all(batch)

    def _output_names(self) -> list[str]:
        return [spec.name for spec in self.output_specs]

    def _answered(self, batch: Batch, groups: Sequence[OutputGroup]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Answers by output, and losses on routing as means over passes. An output in no group has the first one's."""
        messages = self.inputs(batch)
        finals = []
        for group in groups:
            with own_layers.without(self.core, group.absent):
                finals.append(
                    self._final(messages.values, messages.masks, messages.places, routes=self.routes_of(batch))
                )
        penalties: dict[str, Tensor] = {}
        for final in finals:
            for name, value in final.flow.penalties.items():
                penalties[name] = penalties.get(name, 0) + value / len(finals)
        y, masks = finals[0].y, finals[0].masks
        if len(finals) > 1:
            of = own_layers.group_of(groups, self._output_names())
            y = torch.stack([finals[group].y[:, number] for number, group in enumerate(of)], 1)
            if masks is not None:
                parts = [cast(Tensor, finals[group].masks)[:, number] for number, group in enumerate(of)]
                masks = torch.stack(parts, 1)
        answers: dict[str, Tensor] = self.outputs(y, masks, messages.places)
        return answers, penalties

    def _loss_of_all(self, batch: Batch) -> Tensor:
        """The loss where the answers after every iteration count."""
        rule, weights = self.structure.halting, self.structure.regularisation
        messages = self.inputs(batch)
        flows = self._flows(messages.values, messages.masks, routes=self.routes_of(batch))
        thoughts = [self._thought(flow) for flow in flows]
        final = thoughts[-1]
        extra = dict(final.flow.penalties)
        steps = thoughts[1:] or thoughts
        if rule.rule == "none" or rule.rule == "kl":
            loss = self.answers_loss(self.outputs(final.y, final.masks, messages.places), batch)
        elif rule.rule == "act":
            chances = [self._chance(thought) for thought in steps]
            share, cost = halting.act_weights(chances, rule.threshold)
            y = _mixed([thought.y for thought in steps], share)
            loss = self.answers_loss(self.outputs(y, final.masks, messages.places), batch)
            extra["ponder"] = rule.weight * cost.mean()
        else:
            distribution = halting.shares([self._chance(thought) for thought in steps])
            loss = self._expected_loss(steps, distribution, batch, messages.places)
            if rule.rule == "ponder":
                prior = halting.geometric_prior(rule.prior, len(steps), distribution)
                extra["ponder"] = rule.weight * halting.divergence(distribution, prior)
        if weights.deep_supervision and self.training:
            each = [self.answers_loss(self.outputs(step.y, step.masks, messages.places), batch) for step in steps[:-1]]
            if each:
                extra["deep_supervision"] = weights.deep_supervision * torch.stack(each).mean()
        return _plus(loss, extra)

    def _expected_loss(
        self,
        thoughts: list[IterationOutput],
        distribution: Tensor,
        batch: Batch,
        places: Mapping[str, tuple[int, int]],
    ) -> Tensor:
        """Mean over outputs of the loss expected under the distribution (B, P, T) over halting steps."""
        total: Tensor | float = 0.0
        for t, thought in enumerate(thoughts):
            answers = self.outputs(thought.y, thought.masks, places)
            for spec in self.output_specs:
                target = batch[f"{spec.name}/target"]
                losses = answer_losses(spec, answers[spec.name], target)
                share = distribution[..., t]
                if spec.kind == "tokens":
                    begin, length = places[spec.of]
                    share = share[:, begin : begin + length] if share.shape[1] > 1 else share
                elif spec.kind == "class":
                    share = share.mean(1)
                known = ~target.isnan() if spec.kind == "labels" else target != NO_TARGET
                total = total + (losses * share).sum() / known.sum().clamp(min=1)
        assert isinstance(total, Tensor)
        return total / len(self.output_specs)

    def _flows(
        self,
        values: Tensor,
        masks: Tensor | None,
        record: list[StepTrace] | None = None,
        routes: Tensor | None = None,
    ) -> Iterator[RoutingState]:
        """The input step and each iteration, for all samples."""
        total = self._drawn_iterations()
        flow = self.core.begin(values, masks, total, record=record, routes=routes)
        yield flow
        cut, direct = self.structure.regularisation.backprop_last, flow.y
        for t in range(total):
            if self.training and cut is not None and t == total - cut and t > 0:
                # Messages of inputs to outputs keep their gradient, or inputs would never learn.
                flow = flow.detach()
                flow = replace(flow, y=flow.y + (direct - direct.detach()))
            if self.structure.checkpointing and self.training:
                flow = self._checkpointed(flow)
            else:
                flow = self.core.iterate(flow)
            yield flow

    def _final(
        self,
        values: Tensor,
        masks: Tensor | None,
        places: Mapping[str, tuple[int, int]],
        record: list[StepTrace] | None = None,
        routes: Tensor | None = None,
    ) -> IterationOutput:
        """Outputs of the pass in the end; samples that halt leave the batch at once."""
        rule = self.structure.halting.rule
        if rule == "none" or self.training:
            for flow in self._flows(values, masks, record, routes):
                last = flow
            self.halting_counts = torch.full((values.shape[0],), last.t)
            return self._thought(last)
        return iterate_until_halted(self, values, masks, places, record, routes)

    def _thought(self, flow: RoutingState) -> IterationOutput:
        return IterationOutput(self.core.answer(flow), flow.y_masks, flow)

    def _chance(self, thought: IterationOutput) -> Tensor:
        assert self.unit is not None
        chance: Tensor = self.unit(thought.y, thought.masks)
        return chance

    def _drawn_iterations(self) -> int:
        low, high = self.structure.regularisation.iterations_min, self.structure.regularisation.iterations_max
        if not self.training or low is None or high is None:
            return self.iterations
        return int(torch.randint(low, high + 1, ()).item())

    def _checkpointed(self, flow: RoutingState) -> RoutingState:
        """One iteration whose activations are computed again in the backward pass."""
        from torch.utils.checkpoint import checkpoint

        # Which layers are there is set for each pass, and the backward pass comes after all of them.
        born, absent = self.core.births, self.core.absent

        def iterate(flow: RoutingState) -> RoutingState:
            with own_layers.as_in_a_pass(self.core, born, absent):
                return self.core.iterate(flow)

        result: RoutingState = checkpoint(iterate, flow, use_reentrant=False)
        return result

    # Token by token

    def hidden_layers(self) -> list[Operator]:
        """See ``LayeredNetwork``."""
        return cast("list[Operator]", list(self.core.layers))

    def rounds(self) -> int:
        """See ``LayeredNetwork``."""
        return self.iterations

    def decides_by_position(self) -> bool:
        """See ``LayeredNetwork``."""
        return self.core.may_stream and self.structure.halting.rule == "none"  # halting rereads a sample

    def before_output(self, batch: Batch, number: int) -> tuple[Tensor, Tensor | None]:
        """See ``LayeredNetwork``."""
        messages = self.inputs(batch)
        final = self._final(messages.values, messages.masks, messages.places, routes=self.routes_of(batch))
        return final.y[:, number], None if final.masks is None else final.masks[:, number]

    def begin_stream(self, layers: list[States]) -> Streams:
        """See ``LayeredNetwork``."""
        return Streams(layers)

    def stream(self, x: Tensor, stream: Streams, number: int) -> Tensor:
        """See ``LayeredNetwork``."""
        flow = self.core.begin(x.unsqueeze(1), None, self.iterations, streams=stream)
        for _ in range(self.iterations):
            flow = self.core.iterate(flow, streams=stream)
        return self.core.answer(flow)[:, number]

    # Growing and shrinking

    def add_node(
        self, layer: Layer, *, at: int | Literal["edge"] = "edge", enabled: bool = False, seed: int = 0
    ) -> Change:
        """Add a hidden layer that changes no answer until it is enabled; see ``h_extension.add_node``."""
        return extension.add_node(self, layer, at=at, enabled=enabled, seed=seed)

    def give(self, output: str, places: Sequence[int]) -> dict[str, Origin]:
        """Make hidden layers an output's own; see ``h_extension.give``."""
        return extension.give(self, output, places)

    def enable(self, place: int) -> None:
        """Enable a disabled hidden layer."""
        extension.enable(self, place)

    def remove_node(self, place: int) -> Change:
        """Take a hidden layer out; see ``h_extension.remove_node`` and ``h_extension.usage``."""
        return extension.remove_node(self, place)

    # Looking inside

    @torch.no_grad()
    def trace(self, batch: Batch) -> RoutingTrace:
        """See ``HModelParts``; ``facts`` and ``samples`` are empty: the caller that has the task adds them.

        The model comes back in the mode in which it was.
        """
        was_training = self.training
        self.eval()
        messages = self.inputs(batch)
        moments: list[StepTrace] = []
        final = self._final(messages.values, messages.masks, messages.places, moments, self.routes_of(batch))
        self.train(was_training)
        return trace_of(self, moments, messages.masks, final.flow.total)

    def trace_blob(self, task: SampleTask, split: Split, places: NDArray[np.int64], precision: Precision) -> bytes:
        """See ``Network``: every connection of every iteration, see ``trace.file``."""
        return trace_to_bytes(record_trace(self, task, split, places, precision))

    def diagnose(self, before: Network, task: SampleTask, precision: Precision, *, fact: str | None) -> Diagnosis:
        """See ``Network``: depth and sparsity of the samples' routes, and facts that their routes predict."""
        from evodevo.h_model.trace.diagnose import routing_numbers  # it loads scikit-learn

        if not isinstance(before, HModel):
            return Diagnosis()
        return Diagnosis(routing_numbers(self, before, task, precision, fact))


def as_h_model(network: Network) -> HModel | None:
    """The network itself where it is an H-Model, else None."""
    return network if isinstance(network, HModel) else None


def _plus(loss: Tensor, extra: Mapping[str, Tensor]) -> Tensor:
    for value in extra.values():
        loss = loss + value
    return loss


def _mixed(ys: list[Tensor], share: Tensor) -> Tensor:
    """Sum over steps of share (B, P, T) times y (B, O, S, d)."""
    total = torch.zeros_like(ys[0])
    for t, y in enumerate(ys):
        total = total + y * share[:, None, :, t, None].to(y.dtype)
    return total
