"""The base of every network of separate samples: named inputs, named answers, one loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.networks.continuation import LanguageModel, generate
from evodevo.networks.outputs import answer_loss
from evodevo.networks.sampling import SamplingSettings
from evodevo.tasks.base import OutputSpec, SampleTask, Split
from evodevo.tasks.inputs import InputSpec
from evodevo.training.precision import Precision

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Representation:
    """The representation of a batch in a network, before its heads.

    Attributes:
        tokens: (B, S, d).
        mask: (B, S), true at real positions; None where all are.
        pooled: (B, d), the mean over real positions.
    """

    tokens: Tensor
    mask: Tensor | None
    pooled: Tensor


@dataclass(frozen=True)
class Explained:
    """Answers, and which parts of the network they come from, where it chooses among parts. B samples, N parts.

    Attributes:
        answers: output -> logits, as ``Network.forward`` gives them.
        parts: names, in the order of N; none where the network makes no such choice.
        weights: (B, N), how much each part counted; None without parts.
        executed: (B, N), true where a part was run; None without parts.
    """

    answers: Mapping[str, Tensor]
    parts: tuple[str, ...] = ()
    weights: Tensor | None = None
    executed: Tensor | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Measurements inside a trained network.

    Attributes:
        numbers: name -> value, for tables; values that are not finite are left out of them.
        facts: name -> JSON, kept with the evaluation.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Network(nn.Module, ABC):
    """A network over the inputs and outputs of a task; batches are mappings as ``tasks.inputs.Batch``, on its device.

    Attributes:
        input_specs, output_specs: inputs and outputs of the task.
        terms: name -> its contribution to the last loss, weight included, without gradient ("task", "load", …); for
            logs.
        structure: settings of the network, of the class that its row's ``structure`` has; code that changes the
            network keeps it up to date.
        adjustable: attributes that a probe may set for one measurement of the trained network.
        economies: attributes of it that save memory or time while it trains; see ``training.economy``.
        untraced: why ``trace_blob`` gives nothing, with {name} and {title} of the individual.
        uniform_loss: Loss of a uniform guess in nats, for the bound above which a training has diverged; None = no
            bound.
    """

    terms: dict[str, Tensor]
    structure: Any
    adjustable: ClassVar[tuple[str, ...]] = ()
    economies: ClassVar[tuple[str, ...]] = ()
    uniform_loss: float | None = None
    untraced: ClassVar[str] = "{name} ({title}) is no H-Model: its layers have a fixed order."

    def __init__(self, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]) -> None:
        super().__init__()
        self.input_specs = inputs
        self.output_specs = outputs
        self.terms = {}

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Output name -> logits: class and labels (B, size), tokens (B, L, size)."""

    @abstractmethod
    def represent(self, batch: Batch) -> Representation:
        """The tensor before the heads of the outputs; with several outputs, the mean over them."""

    def loss(self, batch: Batch) -> Tensor:
        """Mean over outputs of their losses in nats, and what the network itself adds while it trains."""
        return self.answers_loss(self(batch), batch)

    def answers_loss(self, answers: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """The task's part of the loss.

        Raises:
            UsageError: the batch has no target for an output.
        """
        losses = []
        for spec in self.output_specs:
            target = batch.get(f"{spec.name}/target")
            if target is None:
                raise UsageError(f"the batch has no target of the output {spec.name!r}; it has {sorted(batch)}.")
            losses.append(answer_loss(spec, answers[spec.name], target))
        total = losses[0]
        for other in losses[1:]:
            total = total + other
        return total / len(losses)

    def learning_rates(self) -> dict[str, float]:
        """Beginning of a parameter's name -> factor of its learning rate; 1 for parameters without an entry."""
        return {}

    def observe(self) -> None:
        """Called by the training loop after each step: statistics of the last loss may be updated here, only here."""

    def set_progress(self, share: float) -> None:
        """Set the share of the budget that is used up, 0 to 1; called by the training loop before each step."""

    def longest_text(self, spec: InputSpec) -> int:
        """Largest number of tokens of an input; 0 = no limit."""
        return spec.length

    def unrepresented(self) -> tuple[str, ...]:
        """Names of the children that ``represent`` never runs; none, where the answers are what it represents."""
        return ()

    # What is known of a trained network beside its weights

    def settled(self) -> Any:
        """The structure with what has been set since the network was built."""
        return self.structure

    def counterparts(self, parent: Network) -> dict[str, str]:
        """Part of this network -> part of a parent of which it may inherit the tensors; see ``checkpoints.parts_of``.

        Parts of other names, shapes or number formats inside are not inherited. None where nothing is known of the
        two.
        """
        return {}

    def state_extras(self) -> dict[str, Any]:
        """JSON that a checkpoint keeps beside weights and structure, because answers depend on it."""
        return {}

    def take_state_extras(self, extras: Mapping[str, Any]) -> None:
        """Restore what ``state_extras`` gave; other keys are no business of the network.

        Raises:
            UsageError, LookupError, TypeError, AttributeError, ValueError: values that no network gives.
        """

    def explain(self, batch: Batch) -> Explained:
        """The answers, and the parts that they come from."""
        return Explained(self(batch))

    def writer(self, output: str | None = None) -> LanguageModel:
        """The network as a language model.

        Args:
            output: Which answer is written; None = the only one that predicts tokens.

        Raises:
            UsageError: It does not write.
        """
        raise UsageError(f"a {type(self).__name__} does not write text; backbones, H-Models and stacks of layers do.")

    def continue_text(
        self,
        prompt: Tensor,
        count: int,
        *,
        sampling: SamplingSettings | None = None,
        mask: Tensor | None = None,
        seed: int = 0,
        stop: int | None = None,
        on_token: Callable[[Tensor], None] | None = None,
    ) -> Tensor:
        """New tokens (B, count) that continue a prompt (B, T); see ``continuation.generate``.

        Raises:
            UsageError: The network does not write, or the prompt or the count is impossible.
        """
        return generate(
            self.writer(), prompt, count, sampling=sampling, mask=mask, seed=seed, stop=stop, on_token=on_token
        )

    def diagnose(self, before: Network, task: SampleTask, precision: Precision, *, fact: str | None) -> Diagnosis:
        """Measurements inside the trained network on validation samples.

        Args:
            before: the same network before its training.
            task: the task of its training.
            precision: device and number format.
            fact: name of a group of samples that a probe is to predict from the network's inner state.
        """
        return Diagnosis()

    def trace_blob(
        self, task: SampleTask, split: Split, places: NDArray[np.int64], precision: Precision
    ) -> bytes | None:
        """Trace of the network on these samples, as a blob; None for a network that has nothing to trace."""
        return None
