"""Writing text: one prefill, then one token at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.runs.sampling import SamplingSettings


class LanguageModel(Protocol):
    """A model whose text can be continued: a ``Backbone``, or a ``Writer`` around another network.

    Shapes: tokens (B, T), hidden (B, T, D), logits (..., V).
    """

    def initial_state(self, batch: int, max_length: int = 0) -> Any:
        """The state before the first token."""

    def hidden(self, tokens: Tensor, *, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Hidden states before the head for these tokens; with a state they continue its text."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token."""


def filtered_probabilities(logits: Tensor, sampling: SamplingSettings) -> Tensor:
    """Probabilities (B, V) of the next token after temperature, top-k and top-p; each row sums to one."""
    logits = logits.float()
    if sampling.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    # The largest logit is taken off first, so that no temperature, however low, makes two infinities.
    distances = logits - logits.amax(-1, keepdim=True)
    temperature = max(sampling.temperature, torch.finfo(torch.float32).tiny)
    ordered, order = (distances / temperature).sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    dropped = torch.zeros_like(probabilities, dtype=torch.bool)
    if sampling.top_p < 1:  # rounded sums reach 1 before the end of a large vocabulary
        # A token stays while those before it have not reached p: the first one always stays.
        dropped = probabilities.cumsum(-1) - probabilities >= sampling.top_p
    if sampling.top_k:
        dropped[:, sampling.top_k :] = True
    probabilities = probabilities.masked_fill(dropped, 0.0)
    probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter(-1, order, probabilities)


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Tensor,
    count: int,
    *,
    sampling: SamplingSettings | None = None,
    mask: Tensor | None = None,
    seed: int = 0,
    stop: int | None = None,
    on_token: Callable[[Tensor], None] | None = None,
) -> Tensor:
    """Continue a prompt.

    Args:
        model: the model, in evaluation or training mode; the result does not depend on it.
        prompt: (B, T) token ids, T at least 1.
        count: tokens to write.
        sampling: settings for drawing tokens.
        mask: (B, T), true at real tokens of a prompt padded on the left.
        seed: equal seeds give equal text.
        stop: a token after which a row is finished (it then repeats that token).
        on_token: called with each new column (B,).

    Returns:
        (B, count) new tokens, fewer if every row has stopped.

    Raises:
        UsageError: an empty prompt or a negative count.
    """
    if prompt.ndim != 2 or prompt.shape[1] == 0:
        raise UsageError("the prompt is empty; give at least one token (for example --prompt 'def ').")
    if count < 0:
        raise UsageError(f"{count} tokens cannot be written; the number must be 0 or more.")
    generator = torch.Generator(device=prompt.device).manual_seed(seed)
    sampling = sampling or SamplingSettings()
    state = model.initial_state(prompt.shape[0], prompt.shape[1] + count)
    written: list[Tensor] = []
    finished = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    hidden = model.hidden(prompt, mask=mask, state=state)
    for number in range(1, count + 1):
        logits = model.logits(hidden[:, -1])
        if sampling.temperature == 0:
            token = logits.argmax(-1)
        else:
            token = torch.multinomial(filtered_probabilities(logits, sampling), 1, generator=generator).squeeze(1)
        if stop is not None:
            token = torch.where(finished, torch.full_like(token, stop), token)
            finished |= token == stop
        written.append(token)
        if on_token is not None:
            on_token(token)
        if number == count or (stop is not None and bool(finished.all())):
            break
        hidden = model.hidden(token.unsqueeze(1), state=state)
    return torch.stack(written, 1) if written else prompt[:, :0]
