"""Every operator against y = W_o T(u) u with T written out, entry by entry, from the equations (STAR 2)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.backbone.written_classes import written_class
from evodevo.errors import GenomeError
from evodevo.operators.build import build_operator
from evodevo.operators.classes import LIVClass, liv_classes
from evodevo.operators.compile import compile_operator
from evodevo.operators.spec import Dimensions

TOKENS = 11
DIMS = Dimensions(width=16, head_size=4, band=4, modes=3, max_length=50, chunk=4)
EPSILON = 1e-6


def _paper_genomes() -> list[tuple[int, ...]]:
    found = []
    for genome in product(range(1, 10), range(1, 5), range(1, 3), range(1, 5), range(1, 3)):
        try:
            compile_operator(genome)
        except GenomeError:
            continue
        found.append(genome)
    return found


def sigma(code: int, x: Tensor) -> Tensor:
    return {1: x, 3: x.clamp_min(0), 4: x / (1 + torch.exp(-x))}[code]


def convolved(x: Tensor, taps: Tensor) -> Tensor:
    """Depthwise and causal: one multiplication at a time. x (T, C), taps (K, C)."""
    y = torch.zeros_like(x)
    for i in range(len(x)):
        for k in range(min(len(taps), i + 1)):
            y[i] += taps[k] * x[i - k]
    return y


def features(liv: Any, role: str, u: Tensor) -> Tensor:
    """(T, D) -> (T, channels of the group)."""
    group, genes = liv.groups[role], liv.spec.groups[role]
    h = u @ group.weight.T if genes.channel_mixing == 2 else u
    if genes.token_mixing == 3:
        if role == "decay":
            return h  # the recurrence's own rule: no convolution on A and Z
        if role == "gate" and liv.spec.structure != "diagonal":
            return sigma(genes.nonlinearity, h)
        h = convolved(h, group.taps)
        if liv.spec.structure in ("semi_separable", "delta") and genes.nonlinearity == 1:
            return sigma(4, h)
    elif genes.channel_mixing == 1:
        h = h * group.gain
    return sigma(genes.nonlinearity, h)


def rotated(x: Tensor) -> Tensor:
    """RoPE as multiplication with e^(iθ): x (T, P), channel c paired with c + P/2."""
    half = x.shape[1] // 2
    turned = torch.empty_like(x)
    for t in range(len(x)):
        for c in range(half):
            angle = t * 10000.0 ** (-2 * c / x.shape[1])
            number = torch.complex(x[t, c], x[t, c + half]) * complex(math.cos(angle), math.sin(angle))
            turned[t, c], turned[t, c + half] = number.real, number.imag
    return turned


def filter_of(liv: Any) -> Tensor:
    """h (T, D), the direct term included."""
    group, genes = liv.groups["filter"], liv.spec.groups["filter"]
    if genes.parametrisation == 2:
        return torch.cat([group.taps, torch.zeros(TOKENS - 3, DIMS.width, dtype=group.taps.dtype)])
    h = torch.zeros(TOKENS, DIMS.width, dtype=torch.float64)
    for t in range(TOKENS):
        if liv.dims.long_filter == "modal":
            for n in range(DIMS.modes):
                pole = torch.exp(-torch.exp(group.log_rates[:, n]))
                h[t] += group.residues[:, n] * pole**t
        else:
            share = t / DIMS.max_length
            position = torch.tensor(
                [share, math.cos(2 * math.pi * share), math.sin(2 * math.pi * share)], dtype=torch.float64
            )
            hidden = torch.sin(8.0 * (group.first @ position + group.first_bias))
            hidden = torch.sin(group.second @ hidden + group.second_bias)
            for c in range(DIMS.width):
                rate = 10.0 ** (-3 + 3 * c / (DIMS.width - 1))
                window = math.exp(-rate * t) * math.sqrt(1 - math.exp(-2 * rate))
                h[t, c] = window * (group.third[c] @ hidden)
    h[0] += group.direct
    if liv.spec.banded:
        h[DIMS.band :] = 0
    return h


def normalised(x: Tensor, gain: Tensor) -> Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + EPSILON) * gain


def memoryless(liv: Any, u: Tensor) -> Tensor:
    gate, up = features(liv, "gate", u), features(liv, "up", u)
    return sigma(liv.spec.nonlinearity, gate) * up


def convolution(liv: Any, u: Tensor) -> Tensor:
    value, write, read = (features(liv, role, u) for role in ("value", "write", "read"))
    h = filter_of(liv)
    matrix = torch.zeros(TOKENS, TOKENS, DIMS.width, dtype=torch.float64)  # T_ij = C_i K_(i-j) B_j
    for i in range(TOKENS):
        for j in range(i + 1):
            matrix[i, j] = read[i] * h[i - j] * write[j]
    return torch.einsum("ijc,jc->ic", matrix, value)


def recurrence(liv: Any, u: Tensor) -> Tensor:
    value, gate, write, read = (features(liv, role, u) for role in ("value", "gate", "write", "read"))
    decay, size = liv.groups["decay"], DIMS.head
    step = torch.log1p(torch.exp(u @ decay.weight.T + decay.bias))  # (T, H)
    alpha = torch.exp(-torch.exp(decay.log_rate) * step)
    y = torch.zeros_like(value)
    for head in range(DIMS.heads):
        channels = slice(head * size, (head + 1) * size)
        for i in range(TOKENS):
            for j in range(i + 1):
                between = math.prod(float(alpha[t, head]) for t in range(j + 1, i + 1))
                entry = (read[i] @ write[j]) * between * step[j, head]
                y[i, channels] += entry * value[j, channels]
    y = y + liv.groups["read"].direct * value
    return normalised(y, liv.norm) * sigma(4, gate)


def gated_delta(liv: Any, u: Tensor) -> Tensor:
    """T = product of transition matrices α (I - β k kᵀ), each written out."""
    value, gate, write, read = (features(liv, role, u) for role in ("value", "gate", "write", "read"))
    decay, size, heads = liv.groups["decay"], DIMS.head, DIMS.heads
    logits = u @ decay.weight.T
    alpha = torch.exp(-torch.exp(decay.log_rate) * torch.log1p(torch.exp(logits[:, :heads] + decay.bias)))
    beta = 1 / (1 + torch.exp(-logits[:, heads:]))
    y = torch.zeros_like(value)
    for head in range(heads):
        channels = slice(head * size, (head + 1) * size)
        k, q = (
            x[:, channels] / torch.sqrt(x[:, channels].square().sum(1, keepdim=True) + EPSILON) for x in (write, read)
        )
        for i in range(TOKENS):
            for j in range(i + 1):
                lent = beta[j, head] * k[j]
                for t in range(j + 1, i + 1):
                    lent = alpha[t, head] * (lent - beta[t, head] * k[t] * (k[t] @ lent))
                y[i, channels] += (q[i] @ lent) / math.sqrt(size) * value[j, channels]
    return normalised(y, liv.norm) * sigma(4, gate)


def attention(liv: Any, u: Tensor) -> Tensor:
    spec, size = liv.spec, DIMS.head
    query, key, value = (features(liv, role, u) for role in ("query", "key", "value"))
    heads, kv_heads = query.shape[1] // size, key.shape[1] // size
    outputs = []
    for head in range(heads):
        mine = slice(head * size, (head + 1) * size)
        lent = head // (heads // kv_heads)
        theirs = slice(lent * size, (lent + 1) * size)
        q, k, v = rotated(query[:, mine]), rotated(key[:, theirs]), value[:, theirs]
        matrix = torch.zeros(TOKENS, TOKENS, dtype=torch.float64)
        for i in range(TOKENS):
            seen = [j for j in range(i + 1) if not spec.banded or i - j < DIMS.band]
            scores = torch.stack([q[i] @ k[j] / math.sqrt(size) for j in seen])
            if spec.nonlinearity == 2:
                entries = torch.exp(scores) / torch.exp(scores).sum()
            else:
                entries = sigma(spec.nonlinearity, scores)
            for j, entry in zip(seen, entries, strict=True):
                matrix[i, j] = entry
        outputs.append(matrix @ v)
    if spec.differential == "v2":
        weight = 1 / (1 + torch.exp(-(u @ liv.subtract.T)))
        pairs = zip(outputs[0::2], outputs[1::2], strict=True)
        outputs = [a - weight[:, n : n + 1] * b for n, (a, b) in enumerate(pairs)]
    mixed = torch.cat(outputs, 1)
    return mixed if spec.nonlinearity == 2 else normalised(mixed, liv.norm)


EQUATIONS = {
    "diagonal": memoryless,
    "toeplitz": convolution,
    "semi_separable": recurrence,
    "delta": gated_delta,
    "low_rank": attention,
}


def expected(operator: Any, u: Tensor) -> Tensor:
    """y (T, D) of u (T, D)."""
    if hasattr(operator, "first"):
        return expected(operator.first, u) - expected(operator.second, u)
    return EQUATIONS[operator.spec.structure](operator, u) @ operator.out.T


def check(row: LIVClass, dims: Dimensions) -> None:
    torch.manual_seed(3)
    operator = build_operator(row.spec, dims).double().requires_grad_(False)
    for parameter in operator.parameters():  # no gain stays at one, no weight at zero
        parameter.add_(0.1 * torch.randn_like(parameter))
    u = torch.randn(TOKENS, dims.width, dtype=torch.float64)
    torch.testing.assert_close(operator(u.unsqueeze(0)).y[0], expected(operator, u), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("row", liv_classes().values(), ids=lambda row: row.name)
def test_classes(row: LIVClass) -> None:
    check(row, DIMS)


@pytest.mark.parametrize(
    "number",
    [
        *(12111, 12241, 21114112121, 41121142121, 42313112121, 1212111513111, 1313131613111, 1442141513111),
        *(91132, 311211142, 324111142, 321241142, 123212111215111, 123232121215111),
        *(321212111214111, 1621232121114111, 1623232121214111),
    ],
)
def test_written_classes(number: int) -> None:
    check(written_class(number), DIMS)


@pytest.mark.parametrize("name", ["GConv-2", "GConv-2-Diff", "GConv-2-Dense"])
def test_filters_of_positions(name: str) -> None:
    row = next(row for row in liv_classes().values() if row.name == name)
    check(row, DIMS.model_copy(update={"long_filter": "mlp"}))


@pytest.mark.parametrize("genome", _paper_genomes(), ids=lambda genome: "".join(map(str, genome)))
def test_genomes(genome: tuple[int, int, int, int, int]) -> None:
    check(LIVClass(1, "genome", genome), DIMS)


@pytest.mark.parametrize(
    "genome", [g for g in _paper_genomes() if g[1] == 2 and g[4] == 1 and (g[3] != 1 or g[2] == 2)], ids=str
)
def test_differential_heads(genome: tuple[int, int, int, int, int]) -> None:
    check(LIVClass(1, "genome", genome, "v2"), DIMS)
