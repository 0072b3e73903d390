"""Adapters that start where pretrained layers expect them: least squares on a thousand tokens (SN-Net; 3.5-11).

Layers of several donors are in one network whose messages have d channels. What a message should be is taken from one
donor, the reference: its hidden states, rotated to d channels by PCA. The layer k of K of a donor is then to read the
reference's message at the same relative depth, and its output is to match the reference's message one layer later:

    enter: message(k / K) -> hidden state k of the donor        leave: hidden state k + 1 -> message((k + 1) / K)

Both maps are solved by ridge regression over the same tokens in all donors. The composition leave, enter of two layers
is the stitching layer of SN-Net (Pan et al. 2023, section 3.2) through the space of messages.

Legend: n tokens, a and b channels, d width of the messages, K layers of a donor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.operators.adapters import Adapted
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.pretrained.layers import PretrainedBlock, load_encoder
from evodevo.operators.pretrained.spec import model_folder, read_sizes

TOKENS = 1000
RIDGE = 1e-3


@dataclass(frozen=True)
class Fit:
    """The goodness of fit of one layer's adapters.

    Attributes:
        layer: index among the layers given.
        enter, leave: share of the variance that the map explains, at most 1.
    """

    layer: int
    enter: float
    leave: float


def fit_adapters(
    layers: Sequence[nn.Module],
    specs: Sequence[LayerSpec],
    tokens: Tensor,
    mask: Tensor | None = None,
    *,
    reference: str | None = None,
    count: int = TOKENS,
    ridge: float = RIDGE,
) -> tuple[Fit, ...]:
    """Set the adapters of all pretrained layers among these; other layers stay as they are.

    Args:
        layers: as ``build_layer`` made them from ``specs``, in one message space.
        specs: their descriptions.
        tokens: (B, S) ids that all donors share.
        mask: (B, S), true at real tokens.
        reference: path of the donor whose states are the messages; the first one if left out.
        count: number of tokens used; the first real ones.
        ridge: ridge penalty of the regressions, relative to the mean variance of a channel.

    Raises:
        UsageError: a donor that reads images, ids beyond a vocabulary, sequences that are too long, or no token.
    """
    donors = {
        place: spec.donor
        for place, (layer, spec) in enumerate(zip(layers, specs, strict=True))
        if spec.donor is not None and isinstance(layer, Adapted)
    }
    if not donors:
        return ()
    first, (chosen, _) = next(iter(donors.items()))
    chosen = reference or chosen
    states = {
        path: donor_states(path, tokens, mask, count) for path in {*(path for path, _ in donors.values()), chosen}
    }
    messages = message_space(states[chosen], _adapted(layers[first]).enter.in_features)
    fits = []
    for place, (path, index) in donors.items():
        adapted, own = _adapted(layers[place]), states[path]
        depth = len(own) - 1
        enter = fit(adapted.enter, _at(messages, index / depth), own[index], ridge)
        leave = fit(adapted.leave, own[index + 1], _at(messages, (index + 1) / depth), ridge)
        fits.append(Fit(place, enter, leave))
    return tuple(fits)


@torch.no_grad()
def donor_states(path: str, tokens: Tensor, mask: Tensor | None = None, count: int = TOKENS) -> tuple[Tensor, ...]:
    """Hidden states (n, D) of a text model before its first layer, between layers, and after the last.

    Args:
        path: folder of the model, or its name in the local Hugging Face cache.
        tokens: (B, S) ids.
        mask: (B, S), true at real tokens.
        count: the first so many real tokens are kept.

    Raises:
        UsageError: see ``fit_adapters``.
    """
    sizes = read_sizes(path)
    if sizes.family == "vit":
        raise UsageError(f"{path} reads images; adapters are fitted on tokens.")
    model, _ = load_encoder(model_folder(path), sizes.family)
    words, longest = model.config.vocab_size, model.config.max_position_embeddings
    # RoBERTa counts positions from behind the id of padding.
    first = model.config.pad_token_id + 1 if sizes.family == "roberta" else 0
    real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
    if not bool(real.any()):
        raise UsageError("there is no token to fit adapters on.")
    if int(tokens[real].max()) >= words:
        raise UsageError(
            f"the donor {path} has {words} ids, and id {int(tokens[real].max())} was given: donors and task must share "
            "a tokenizer."
        )
    if tokens.shape[1] > longest - first:
        raise UsageError(f"the donor {path} reads {longest - first} positions; {tokens.shape[1]} were given.")
    rows = int((real.sum(1).cumsum(0) < count).sum()) + 1
    tokens, real = tokens[:rows].long().masked_fill(~real[:rows], 0), real[:rows]
    places = torch.arange(first, first + tokens.shape[1]).expand_as(tokens)
    extra = {} if sizes.family == "distilbert" else {"position_ids": places}
    answer = model(tokens, attention_mask=real.long(), output_hidden_states=True, **extra)
    return tuple(state[real][:count] for state in answer.hidden_states)


def message_space(states: Sequence[Tensor], width: int) -> list[Tensor]:
    """The states of the reference (n, a) as messages (n, d): rotated onto their main directions, zeros where d > a."""
    everything = torch.cat([state.double() for state in states])
    if everything.shape[1] == width:
        return [state.double() for state in states]
    centre = everything.mean(0)
    _, vectors = torch.linalg.eigh((everything - centre).T @ (everything - centre))
    kept = vectors.flip(1)[:, :width]
    messages = [(state.double() - centre) @ kept for state in states]
    return [nn.functional.pad(message, (0, width - kept.shape[1])) for message in messages]


@torch.no_grad()
def fit(adapter: nn.Linear, source: Tensor, target: Tensor, ridge: float = RIDGE) -> float:
    """Set a map to the ridge regression of target (n, b) on source (n, a).

    Returns:
        The share of the target's variance that it explains.
    """
    weight, bias = ridge_regression(source, target, ridge)
    adapter.weight.copy_(weight)
    adapter.bias.copy_(bias)
    rest = target.double() - (source.double() @ weight.T + bias)
    spread = (target.double() - target.double().mean(0)).square().sum()
    return float(1 - rest.square().sum() / spread.clamp_min(torch.finfo(torch.float64).tiny))


def ridge_regression(source: Tensor, target: Tensor, ridge: float = RIDGE) -> tuple[Tensor, Tensor]:
    """Weight (b, a) and bias (b,) of least sum |W x + c - y|² + λ |W|², in float64; the bias is not penalised.

    λ is ``ridge`` times n times the mean variance of a channel of the source.
    """
    x, y = source.double(), target.double()
    x_mean, y_mean = x.mean(0), y.mean(0)
    x, y = x - x_mean, y - y_mean
    gram = x.T @ x
    penalty = (ridge * gram.diagonal().mean()).clamp_min(torch.finfo(torch.float64).eps)
    weight = torch.linalg.solve(gram + penalty * torch.eye(len(gram), dtype=gram.dtype), x.T @ y).T
    return weight, y_mean - weight @ x_mean


def _at(messages: Sequence[Tensor], depth: float) -> Tensor:
    return messages[round(depth * (len(messages) - 1))]


def _adapted(layer: nn.Module) -> Adapted:
    assert isinstance(layer, Adapted)
    assert isinstance(layer.operator, PretrainedBlock)
    return layer
