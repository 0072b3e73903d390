"""The loss of a language model without its logits in memory: they are computed some tokens at a time, and again in the
backward pass.

Logits of the paper's batch, 262,144 tokens over 32,768 ids, take 34 GB in float32, and softmax and gradient as much
again. Kept for the backward pass are the hidden vectors, which are there anyway, and one number per token.

Legend: N tokens, D width, V vocabulary, C tokens at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from evodevo.tasks.base import NO_TARGET

AtOnce = int | Literal["auto", "all"]

WHOLE_ENTRIES = 1 << 28
"""Largest number of logits, N times V, that ``auto`` computes at once: 1 GiB in float32."""
CHUNK_ENTRIES = 1 << 26
"""Number of logits, C times V, that it computes at a time above that: 256 MiB in float32."""
FEWEST_TOKENS = 64


def tokens_at_once(tokens: int, vocabulary: int, wanted: AtOnce = "auto") -> int:
    """C: the number of tokens whose logits are in memory at a time, at most N.

    Args:
        tokens: N.
        vocabulary: V.
        wanted: A number; ``all``; or ``auto``: all up to ``WHOLE_ENTRIES`` logits, above that as many as make
            ``CHUNK_ENTRIES``, a function of N and V alone.
    """
    if wanted == "all" or (wanted == "auto" and tokens * vocabulary <= WHOLE_ENTRIES):
        return tokens
    return min(tokens, max(FEWEST_TOKENS, CHUNK_ENTRIES // vocabulary) if wanted == "auto" else wanted)


def transient_bytes(at_once: int, width: int, vocabulary: int, element_bytes: int = 4) -> int:
    """Largest number of bytes that the loss takes beside its inputs and their gradients, for a while.

    Args:
        at_once: C.
        width: D.
        vocabulary: V.
        element_bytes: Of the logits' precise number format.
    """
    # Logits, their copy in the precise format where autocast made them half, and exponentials; a chunk of gradients of
    # hidden vectors, and the weight as autocast reads it.
    return element_bytes * (3 * at_once * vocabulary + 2 * at_once * width + vocabulary * width)


def token_loss(hidden: Tensor, weight: Tensor, target: Tensor, at_once: AtOnce = "auto") -> Tensor:
    """Mean cross-entropy in nats of ``hidden @ weight.T`` over the tokens that have a target.

    Where all are computed at once it is ``F.cross_entropy`` to the bit; else it differs in the order of sums. Softmax
    and sums are in float32 at least, products in the format of autocast where that is on.

    Args:
        hidden: (..., D).
        weight: (V, D).
        target: (...) integers; ``NO_TARGET`` where there is none.
        at_once: See ``tokens_at_once``.

    Returns:
        A scalar; NaN without any target.
    """
    wanted = target.flatten()
    chunk = tokens_at_once(len(wanted), len(weight), at_once)
    if chunk == len(wanted):
        logits = F.linear(hidden, weight).flatten(0, -2)
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        # Recorded scores come again to the bit by this one order of sums.
        return F.cross_entropy(precise, wanted, ignore_index=NO_TARGET)
    vectors = hidden.reshape(-1, hidden.shape[-1])
    kind = vectors.device.type
    dtype = torch.promote_types(vectors.dtype, weight.dtype)
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    loss: Tensor = _TokenLoss.apply(vectors, weight, wanted, chunk, dtype)  # type: ignore[no-untyped-call]
    return loss


class _TokenLoss(torch.autograd.Function):
    """Chunks in both directions. It casts by itself, so that it does not depend on the caller's autocast."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, chunk: int, dtype: torch.dtype) -> Tensor:
        precise = torch.promote_types(dtype, torch.float32)
        normalisers = torch.empty(len(hidden), dtype=precise, device=hidden.device)
        total = torch.zeros((), dtype=precise, device=hidden.device)
        with _no_autocast(hidden):
            used = weight.to(dtype)
            for begin in range(0, len(hidden), chunk):
                part = slice(begin, begin + chunk)
                logits = F.linear(hidden[part].to(dtype), used).to(precise)
                there = target[part] != NO_TARGET
                normalisers[part] = logits.logsumexp(1)
                chosen = logits.gather(1, target[part].clamp(min=0).unsqueeze(1)).squeeze(1)
                total += torch.where(there, normalisers[part] - chosen, 0).sum()
        count = (target != NO_TARGET).sum()
        ctx.save_for_backward(hidden, weight, target, normalisers)
        ctx.chunk, ctx.dtype = chunk, dtype
        return total / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        hidden, weight, target, normalisers = ctx.saved_tensors
        dtype, precise = ctx.dtype, normalisers.dtype
        count = (target != NO_TARGET).sum()
        scale = (gradients[0] / count).to(precise)
        of_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        # Summed over chunks in the precise format: in half precision later chunks would be lost.
        of_weight = torch.zeros_like(weight, dtype=precise) if ctx.needs_input_grad[1] else None
        with _no_autocast(hidden):
            used = weight.to(dtype)
            for begin in range(0, len(hidden), ctx.chunk):
                part = slice(begin, begin + ctx.chunk)
                vectors = hidden[part].to(dtype)
                change = F.linear(vectors, used).to(precise)
                change.sub_(normalisers[part].unsqueeze(1)).exp_()
                places = target[part].clamp(min=0).unsqueeze(1)
                change.scatter_add_(1, places, change.new_full(places.shape, -1.0))
                change.mul_(torch.where(target[part] != NO_TARGET, scale, 0).unsqueeze(1))
                narrow = change.to(dtype)
                if of_hidden is not None:
                    of_hidden[part] = narrow @ used
                if of_weight is not None and dtype == precise:
                    of_weight.addmm_(narrow.T, vectors)
                elif of_weight is not None:
                    of_weight += narrow.T @ vectors
        return of_hidden, None if of_weight is None else of_weight.to(weight.dtype), None, None, None


def _no_autocast(like: Tensor) -> AbstractContextManager[Any]:
    kind = like.device.type
    # The meta device has no autocast.
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
