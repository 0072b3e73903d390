"""A language model from a backbone genome.

Embedding, LIVs with pre-norm residuals, a final norm, a head. Weights of feature groups live once in a bank; LIVs hold
their keys. Shared features are passed from owner to borrower as tensors of this forward pass.

Legend: B batch, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.backbone.compiled import Backend
from evodevo.backbone.inheritance import counterparts
from evodevo.backbone.spec import BackboneStructure
from evodevo.backbone.wiring import Wiring
from evodevo.errors import UsageError
from evodevo.networks.base import Batch, Network, Representation
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.base import select_rows, used_bytes
from evodevo.operators.block import Block
from evodevo.operators.liv import NORM_EPSILON
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.training.token_loss import AtOnce, token_loss

HEAD_STD = 0.02


@dataclass
class GenerationState:
    """The state of generation: per LIV the tensors that its specification names."""

    livs: list[dict[str, Any]]
    length: int = 0

    def used_bytes(self) -> int:
        """Bytes of the written part of every tensor."""
        return sum(used_bytes(liv) for liv in self.livs)

    def select(self, rows: Tensor) -> GenerationState:
        """A copy with these rows of the batch."""
        return GenerationState([select_rows(liv, rows) for liv in self.livs], self.length)


class Backbone(Network):
    """A causal language model of one input of tokens.

    In samples padding is on the right: what comes after a token does not affect it.

    Args:
        structure: Genome and sizes.
        inputs: The text, an input of V token ids.
        outputs: Its next tokens.

    Attributes:
        checkpointing: Whether activations inside a LIV are computed again in the backward pass.
        loss_tokens: Number of tokens whose logits the loss computes at once; see ``token_loss``.
        compiled: Backend of ``torch.compile`` for its blocks while it trains.
    """

    economies = ("checkpointing", "compiled", "loss_tokens")

    def __init__(
        self, structure: BackboneStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        self.structure = structure
        self.plans = structure.plans()
        self.dims = structure.space.dimensions
        vocabulary = inputs[0].vocabulary
        self.uniform_loss = log(vocabulary)
        self.embedding = nn.Embedding(vocabulary, self.dims.width)
        self.wiring = Wiring(self.plans, self.dims)
        self.bank = nn.ModuleDict()
        self.blocks = self.wiring.build(self.bank)
        self.norm = nn.RMSNorm(self.dims.width, eps=NORM_EPSILON)
        self.head = None if structure.tied else nn.Linear(self.dims.width, vocabulary, bias=False)
        self.checkpointing = False
        self.loss_tokens: AtOnce = "auto"
        self.compiled: Backend = "off"
        self._initialise()

    def _initialise(self) -> None:
        """Small logits at the start, and outputs scaled so that the residual sum has about unit size at any depth."""
        with torch.no_grad():
            self.embedding.weight.normal_(std=HEAD_STD if self.structure.tied else 1.0)
            if self.head is not None:
                self.head.weight.normal_(std=HEAD_STD)
            self.wiring.scale_outputs(self.blocks)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Network``."""
        return {self.output_specs[0].name: self.next_logits(batch[self.input_specs[0].name])}

    def counterparts(self, parent: Network) -> dict[str, str]:
        """See ``Network``; between backbones."""
        return counterparts(self.plans, parent.plans, self.bank) if isinstance(parent, Backbone) else {}

    def longest_text(self, spec: InputSpec) -> int:
        """See ``Network``: only filters over positions end."""
        return self.dims.max_length if any(plan.spec.ends(self.dims) for plan in self.plans) else 0

    def unrepresented(self) -> tuple[str, ...]:
        """See ``Network``."""
        return ("head",)

    def represent(self, batch: Batch) -> Representation:
        """See ``Network``."""
        name = self.input_specs[0].name
        hidden, mask = self.hidden(batch[name]), batch.get(f"{name}/mask")
        return Representation(hidden, mask, masked_mean(hidden, mask))

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy in nats of predicting each next token."""
        hidden = self.hidden(batch[self.input_specs[0].name])
        # Not ``answers_loss``: its sum has another order, and recorded scores would not come again bit for bit.
        return token_loss(hidden, self.head_weight, batch[f"{self.output_specs[0].name}/target"], self.loss_tokens)

    # Token by token

    def writer(self, output: str | None = None) -> Self:
        """See ``Network``; nothing in it depends on its mode."""
        return self

    def next_logits(
        self, tokens: Tensor, *, mask: Tensor | None = None, state: GenerationState | None = None
    ) -> Tensor:
        """Logits of the token after each.

        Args:
            tokens: (B, T) integers. With a state they continue its sequence; any split gives the same logits.
            mask: (B, T), true at real tokens; padding is on the left.
            state: from ``initial_state``; brought up to date by the call.

        Returns:
            (B, T, V).
        """
        return self.logits(self.hidden(tokens, mask=mask, state=state))

    def hidden(self, tokens: Tensor, *, mask: Tensor | None = None, state: GenerationState | None = None) -> Tensor:
        """The residual stream after the last LIV, normalised: (B, T, D)."""
        x: Tensor = self.embedding(tokens)
        x = self.wiring.run(
            self.blocks,
            x,
            mask=mask,
            states=None if state is None else state.livs,
            checkpointing=self.checkpointing,
            compiled=self.compiled,
        )
        if state is not None:
            state.length += tokens.shape[1]
        normalised: Tensor = self.norm(x)
        return normalised

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, V)."""
        return F.linear(hidden, self.head_weight)

    @property
    def head_weight(self) -> Tensor:
        """(V, D); the embedding where the two are tied."""
        return self.embedding.weight if self.head is None else self.head.weight

    def initial_state(self, batch: int, max_length: int = 0) -> GenerationState:
        """The state before the first token; room for ``max_length`` tokens is set aside.

        Raises:
            UsageError: batch below 1.
        """
        if batch < 1:
            raise UsageError(f"batch is {batch}; it must be at least 1.")
        weight: Tensor = self.embedding.weight
        blocks = cast("list[Block]", list(self.blocks))
        return GenerationState(
            [block.initial_state(batch, max_length, weight.dtype, weight.device) for block in blocks]
        )
