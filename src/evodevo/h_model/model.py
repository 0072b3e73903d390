"""The H-Model: inputs, hidden layers that choose who hears them, outputs (Hospodarchuk; docs/spec/h_model.md).

Depth is time: the hidden layers are run T times, and between two iterations every layer hears what was addressed to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model import halting
from evodevo.h_model.core import Flow, HCore, Moment
from evodevo.h_model.runners.choice import RunnerName, build_runner
from evodevo.h_model.spec import HModelStructure, InferenceStructure
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.inputs import Inputs
from evodevo.networks.outputs import Outputs, answer_losses
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.layers.base import Layer
from evodevo.tasks.base import NO_TARGET, InputSpec, OutputSpec

if TYPE_CHECKING:
    from evodevo.h_model.extension import Change

LARGEST_T = 4096


@dataclass
class Thought:
    """What stands after some iteration.

    Attributes:
        y: (B, O, S, d), divided by its own number of steps.
        masks: (B, O, S), or None.
        flow: of the pass.
    """

    y: Tensor
    masks: Tensor | None
    flow: Flow


class HModel(Network):
    """An H-Model over the inputs and outputs of a task.

    Args:
        structure: layers, routing, iterations; everything but inputs and outputs.
        inputs, outputs: of the task.

    Attributes:
        iterations: T of every pass; settable, beyond the trained number too.
        halting_counts: (B,) iterations of each sample in the last pass in evaluation mode.
        newborn_rates: place of a hidden layer -> factor of its learning rate, while it is new; 1 where none stands.

    Raises:
        UsageError: a causal model whose outputs are not tokens of its input, or no input or output.
    """

    def __init__(
        self, structure: HModelStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        if structure.causal and any(spec.modality != "tokens" for spec in inputs):
            raise UsageError("a causal H-Model reads tokens; images and vectors have no order of time.")
        if not structure.causal and any(spec.kind == "tokens" for spec in outputs):
            raise UsageError(
                "predicting the next token needs a causal model: set causal = true, or it would read its answer."
            )
        self.structure = structure
        self._iterations = structure.iterations
        self._runner: RunnerName = "auto"
        self.newborn_rates: dict[int, float] = {}
        self.inputs = Inputs(
            inputs,
            structure.width,
            structure.input_blocks,
            canvas=structure.canvas,
            slots=structure.slots,
            causal=structure.causal,
            missing=structure.missing,
        )
        self.core = HCore(structure, len(inputs), len(outputs))
        self.outputs = Outputs(outputs, structure.width, structure.output_blocks, causal=structure.causal)
        self.unit = (
            halting.HaltingUnit(structure.width, per_position=structure.causal)
            if structure.halting.rule in ("output_mass", "act", "ponder")
            else None
        )
        self.halting_counts = torch.zeros(0, dtype=torch.long)

    # What may be set

    @property
    def iterations(self) -> int:
        """T."""
        return self._iterations

    @iterations.setter
    def iterations(self, value: int) -> None:
        if not 0 <= value <= LARGEST_T:
            raise UsageError(f"T is {value}; it must be 0 to {LARGEST_T}.")
        self._iterations = value

    @property
    def inference(self) -> InferenceStructure:
        """Which connections count in evaluation mode."""
        return self.core.inference

    @inference.setter
    def inference(self, value: InferenceStructure) -> None:
        hidden = self.core.hidden_count
        if value.mode == "target_topm" and value.m > hidden:
            raise UsageError(f"m is {value.m}; the model has {hidden} hidden layers.")
        if value.mode == "source_topk" and value.k > hidden + len(self.output_specs):
            raise UsageError(f"k is {value.k}; a layer has {hidden + len(self.output_specs)} targets.")
        self.core.inference = value

    @property
    def alpha(self) -> float:
        """The temperature of the routers at t = 0; set it to override the structure's, also at inference."""
        return self.core.alpha_at(0)

    @alpha.setter
    def alpha(self, value: float) -> None:
        if not 0 < value < float("inf"):
            raise UsageError(f"alpha is {value}; it must be above 0.")
        self.core.alpha = value

    @property
    def alpha_rate(self) -> float:
        """The factor of alpha per iteration."""
        return self.core.alpha_rate

    @alpha_rate.setter
    def alpha_rate(self, value: float) -> None:
        if not 0 < value < float("inf"):
            raise UsageError(f"the alpha rate is {value}; it must be above 0.")
        self.core.alpha_rate = value

    def settled(self) -> HModelStructure:
        """The structure with what has been set since: alpha, its rate, the inference mode.

        T stays: embeddings of iterations were made for the structure's.
        """
        changes: dict[str, Any] = {"alpha_rate": self.alpha_rate, "inference": self.inference}
        if self.core.alpha is not None:
            changes["alpha"] = self.core.alpha
        return self.structure.model_copy(update=changes)

    @property
    def sharpening(self) -> bool:
        """Whether ``inference`` holds while training too; ``training.sharpening`` switches it on and off."""
        return self.core.sharpening

    @sharpening.setter
    def sharpening(self, value: bool) -> None:
        self.core.sharpening = value

    @property
    def runner(self) -> RunnerName:
        """How hidden layers are run: ``auto``, ``probe``, ``loop``, ``grouped``; see ``runner_choice.build_runner``."""
        return self._runner

    @runner.setter
    def runner(self, value: RunnerName) -> None:
        self.core.runner = build_runner(value)
        self._runner = value

    def set_progress(self, share: float) -> None:
        """See ``Network``; alpha is annealed along it."""
        self.core.set_progress(share)

    @property
    def progress(self) -> float:
        """Share of the budget that the step which is made now uses up; of the last one between two."""
        return self.core.progress

    def learning_rates(self) -> dict[str, float]:
        """See ``Network``: newborn layers learn at rates of their own."""
        return {f"core.layers.{place}.": factor for place, factor in self.newborn_rates.items()}

    @property
    def births(self) -> dict[int, float | Tensor]:
        """Place of a newborn hidden layer -> its birth factor; see ``HCore``."""
        return self.core.births

    @births.setter
    def births(self, factors: dict[int, float | Tensor]) -> None:
        self.core.births = factors

    # Passes

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``. In evaluation mode samples stop where the halting rule says so."""
        messages = self.inputs(batch)
        final = self._final(messages.values, messages.masks, messages.places)
        answers: dict[str, Tensor] = self.outputs(final.y, final.masks, messages.places)
        return answers

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``: what the outputs heard."""
        messages = self.inputs(batch)
        final = self._final(messages.values, messages.masks, messages.places)
        tokens = final.y.mean(1)
        mask = None if final.masks is None else final.masks.any(1)
        return Representation(tokens, mask, masked_mean(tokens, mask))

    def loss(self, batch: Batch) -> Tensor:
        """The task's loss under the halting rule, deep supervision, and the losses on routing."""
        rule, weights = self.structure.halting, self.structure.regularisation
        every = self.training and (weights.deep_supervision > 0 or rule.rule in ("output_mass", "ponder"))
        if not every and rule.rule != "act":
            messages = self.inputs(batch)
            final = self._final(messages.values, messages.masks, messages.places)
            answers = self.outputs(final.y, final.masks, messages.places)
            return _plus(self.answers_loss(answers, batch), final.flow.penalties)
        return self._loss_of_all(batch)

    def _loss_of_all(self, batch: Batch) -> Tensor:
        """The loss where the answers after every iteration count."""
        rule, weights = self.structure.halting, self.structure.regularisation
        messages = self.inputs(batch)
        thoughts = [self._thought(flow) for flow in self._flows(messages.values, messages.masks)]
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
            each = [self.answers_loss(self.outputs(one.y, one.masks, messages.places), batch) for one in steps[:-1]]
            if each:
                extra["deep_supervision"] = weights.deep_supervision * torch.stack(each).mean()
        return _plus(loss, extra)

    def _expected_loss(
        self,
        thoughts: list[Thought],
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

    def _flows(self, values: Tensor, masks: Tensor | None, record: list[Moment] | None = None) -> Iterator[Flow]:
        """The input step and each iteration, for all samples."""
        total = self._drawn_iterations()
        flow = self.core.begin(values, masks, total, record=record)
        yield flow
        cut, direct = self.structure.regularisation.backprop_last, flow.y
        for t in range(total):
            if self.training and cut is not None and t == total - cut and t > 0:
                # What inputs say to outputs directly keeps its gradient, or inputs would never learn.
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
        record: list[Moment] | None = None,
    ) -> Thought:
        """What stands in the end; samples that halt leave the batch at once."""
        rule = self.structure.halting.rule
        if rule == "none" or self.training:
            for flow in self._flows(values, masks, record):
                last = flow
            self.halting_counts = torch.full((values.shape[0],), last.t)
            return self._thought(last)
        from evodevo.h_model.early_exit import think_until_sure

        return think_until_sure(self, values, masks, places, record)

    def _thought(self, flow: Flow) -> Thought:
        return Thought(self.core.answer(flow), flow.y_masks, flow)

    def _chance(self, thought: Thought) -> Tensor:
        assert self.unit is not None
        chance: Tensor = self.unit(thought.y, thought.masks)
        return chance

    def _drawn_iterations(self) -> int:
        low, high = self.structure.regularisation.iterations_min, self.structure.regularisation.iterations_max
        if not self.training or low is None or high is None:
            return self.iterations
        return int(torch.randint(low, high + 1, ()).item())

    def _checkpointed(self, flow: Flow) -> Flow:
        """One iteration whose activations are computed again in the backward pass."""
        from torch.utils.checkpoint import checkpoint

        result: Flow = checkpoint(self.core.iterate, flow, use_reentrant=False)
        return result

    # Growing and shrinking

    def add_node(
        self, layer: Layer, *, at: int | Literal["edge"] = "edge", enabled: bool = False, seed: int = 0
    ) -> Change:
        """Add a hidden layer that changes no answer until it is enabled; see ``h_extension.add_node``."""
        from evodevo.h_model.extension import add_node

        return add_node(self, layer, at=at, enabled=enabled, seed=seed)

    def enable(self, place: int) -> None:
        """Let a disabled hidden layer be heard."""
        from evodevo.h_model.extension import enable

        enable(self, place)

    def remove_node(self, place: int) -> Change:
        """Take a hidden layer out; see ``h_extension.remove_node`` and ``h_extension.usage``."""
        from evodevo.h_model.extension import remove_node

        return remove_node(self, place)

    # Looking inside

    def trace(self, batch: Batch) -> RoutingTrace:
        """What happens in a pass in evaluation mode: every connection of every iteration (3.5-12).

        ``facts`` and ``samples`` are empty; who knows them adds them.
        """
        from evodevo.h_model.trace.record import trace

        return trace(self, batch)


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
