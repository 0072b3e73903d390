"""Functions of a generated ``model.py``, each written only where an operator of the genome calls it.

Legend of the generated code: B batch, T tokens of a call, S tokens so far, D width, H heads, P head size, N state size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection

from evodevo.operators.source.sheet import Fragment

PIECES: dict[str, str] = {
    "turned": '''
def turned(x, steps):
    """x (..., T, P), rotated by the angles of its positions (..., T)."""
    rates = 10000.0 ** -(torch.arange(0, x.shape[-1], 2, dtype=torch.float64, device=x.device) / x.shape[-1])
    angles = torch.cat([steps.unsqueeze(-1) * rates] * 2, -1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin
''',
    "rotate": '''
def rotate(x, start):
    """Rotary positions (Su et al. 2021) of x (B, H, T, P), whose first token is number ``start`` of its text."""
    steps = torch.arange(start, start + x.shape[2], dtype=torch.float64, device=x.device)
    return turned(x, steps)
''',
    "rotate_real": '''
def rotate_real(x, mask):
    """Rotary positions (Su et al. 2021) of x (B, H, T, P), which count the real tokens of mask (B, T)."""
    if mask is None:
        return turned(x, torch.arange(x.shape[2], dtype=torch.float64, device=x.device))
    return turned(x, (mask.double().cumsum(1) - 1).clamp(min=0).unsqueeze(1))
''',
    "heads": '''
def heads(x, size):
    """(B, T, H P) -> (B, H, T, P) with heads of ``size`` channels."""
    return x.unflatten(-1, (-1, size)).transpose(1, 2)
''',
    "remember": '''
def remember(state, name, new, dim, last=None):
    """All entries so far along ``dim``; the state keeps them, or the last ones only."""
    if name in state:
        new = torch.cat([state[name], new], dim)
    length = new.shape[dim]
    state[name] = new if last is None else new.narrow(dim, max(0, length - last), min(last, length))
    return new
''',
    "visible": '''
def visible(query, key, band=None):
    """(T, S): whether the i-th of the last T of S tokens reads token j; with a band, only the last ones."""
    tokens, length = query.shape[2], key.shape[2]
    seen = torch.ones(tokens, length, dtype=torch.bool, device=query.device).tril(length - tokens)
    return seen if band is None else seen.triu(length - tokens - band + 1)
''',
    "visible_real": '''
def visible_real(x, mask, band=None):
    """(T, T), or (B, 1, T, T) with a mask (B, T): whether each token reads another: itself and the real ones before it;
    with a band, only the last ones."""
    own = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    seen = torch.ones_like(own).tril()
    if band is not None:
        seen = seen.triu(1 - band)
    return seen if mask is None else ((seen & mask[:, None, :]) | own).unsqueeze(1)
''',
    "real": '''
def real(x, mask):
    """x (B, T, ...), zero where mask (B, T) is false."""
    return x if mask is None else x * mask.unsqueeze(-1)
''',
    "repeated": '''
def repeated(x, count):
    """Keys or values (B, G, S, P) for ``count`` query heads, each serving equally many in a row."""
    return x.repeat_interleave(count // x.shape[1], 1)
''',
    "taps": '''
def short_convolution(x, taps, state, name):
    """y_i = sum_k taps_k * x_{i-k} for x (B, T, C) and taps (K, C); the state keeps the last K - 1 inputs."""
    kept = taps.shape[0] - 1
    past = state.get(name, x.new_zeros(x.shape[0], kept, x.shape[2]))
    extended = torch.cat([past, x], 1)
    state[name] = extended[:, extended.shape[1] - kept :]
    return sum(taps[k] * extended[:, kept - k : kept - k + x.shape[1]] for k in range(kept + 1))
''',
    "scan": '''
def scan(value, write, read, log_decay, state):
    """S_t = exp(log_decay_t) S_{t-1} + write_t (x) value_t,  y_t = S_t^T read_t, in chunks of ``CHUNK`` tokens.

    value (B, T, H, P); write and read (B, T, H or 1, N); log_decay (B, T, H); the state keeps S (B, H, N, P).
    Differences of sums of logarithms are masked before exp: nothing overflows.
    """
    batch, _, count, size = value.shape
    matrix = state.get("matrix", value.new_zeros(batch, count, write.shape[-1], size))
    outputs = []
    for v, b, c, a in zip(*(x.split(CHUNK, 1) for x in (value, write, read, log_decay)), strict=True):
        v, b, c, total = v.transpose(1, 2), b.transpose(1, 2), c.transpose(1, 2), a.cumsum(1).transpose(1, 2)
        later = torch.ones(v.shape[2], v.shape[2], dtype=torch.bool, device=v.device).triu(1)
        decay = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, -torch.inf).exp()
        outputs.append((c @ b.mT * decay) @ v + c * total.exp().unsqueeze(-1) @ matrix)
        matrix = matrix * total[..., -1:].exp().unsqueeze(-1)
        matrix = matrix + (b * (total[..., -1:] - total).exp().unsqueeze(-1)).mT @ v
    state["matrix"] = matrix
    return torch.cat(outputs, 2).transpose(1, 2)
''',
    "unit": '''
def unit(x):
    """Vectors of length one; zero where they are zero."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
''',
    "delta_scan": '''
def delta_scan(value, key, query, log_decay, strength, state):
    """The gated delta rule (Yang et al. 2024) in chunks of ``CHUNK`` tokens: with a_t = exp(log_decay_t),
    u_t = strength_t (v_t - a_t S_{t-1}^T k_t),  S_t = a_t S_{t-1} + k_t (x) u_t,  y_t = S_t^T q_t.

    value, key and query (B, T, H, P); log_decay and strength (B, T, H); the state keeps S (B, H, P, P), keys first. All
    u of a chunk are the solution of one triangular system.
    """
    batch, _, count, size = value.shape
    matrix = state.get("matrix", value.new_zeros(batch, count, size, size))
    outputs = []
    parts = (x.transpose(1, 2).split(CHUNK, 2) for x in (value, key, query, log_decay, strength))
    for v, k, q, a, b in zip(*parts, strict=True):
        total, beta = a.cumsum(2), b.unsqueeze(-1)
        later = torch.ones(v.shape[2], v.shape[2], dtype=torch.bool, device=v.device).triu(1)
        decay = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, -torch.inf).exp()
        since = total.exp().unsqueeze(-1)
        lower = (beta * (k @ k.mT) * decay).tril(-1)
        right = beta * (v - since * (k @ matrix))
        news = torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)
        outputs.append((q @ k.mT * decay) @ news + since * q @ matrix)
        kept = (total[..., -1:] - total).exp().unsqueeze(-1) * k
        matrix = total[..., -1:, None].exp() * matrix + kept.mT @ news
    state["matrix"] = matrix
    return torch.cat(outputs, 2).transpose(1, 2)
''',
    "convolve": '''
def convolve(x, kernel):
    """Causal convolution of x (B, S, D) with kernel (D, K), by Fourier transform."""
    size = x.shape[1] + kernel.shape[1]
    product = torch.fft.rfft(x.transpose(1, 2), n=size) * torch.fft.rfft(kernel, n=size)
    return torch.fft.irfft(product, n=size)[..., : x.shape[1]].transpose(1, 2)
''',
    "modal_kernel": '''
def kernel_of(weights, length):
    """h_t = sum_n r_n exp(-t exp(rate_n)), and the direct term at t = 0: (D, length)."""
    kernel = torch.einsum("dn,dnt->dt", weights.residues, powers(weights, length))
    return kernel + F.pad(weights.direct.unsqueeze(1), (0, length - 1))
''',
    "powers": '''
def powers(weights, length):
    """Each mode's factor over 0 ... length - 1 steps: (D, N, length)."""
    steps = torch.arange(length, dtype=weights.log_rates.dtype, device=weights.log_rates.device)
    return torch.exp(-weights.log_rates.exp().unsqueeze(-1) * steps)
''',
    "modal_filter": '''
def long_filter(weights, x, state):
    """The long filter over x (B, T, D); the state keeps the modes (B, D, N)."""
    tokens = x.shape[1]
    grown = powers(weights, tokens + 1)
    y = convolve(x, kernel_of(weights, tokens))
    end = torch.einsum("btd,dnt->bdn", x, grown[..., :tokens].flip(-1))
    if "modes" in state:
        y = y + torch.einsum("bdn,dn,dnt->btd", state["modes"], weights.residues, grown[..., 1:])
        end = end + state["modes"] * grown[..., tokens]
    state["modes"] = end
    return y
''',
    "mlp_kernel": '''
def kernel_of(weights, length):
    """A sine network over positions times a window that decays (Hyena), and the direct term: (D, length)."""
    assert length <= POSITIONS, f"{length} tokens; the long filter has {POSITIONS} positions"
    time = torch.arange(length, dtype=weights.first.dtype, device=weights.first.device)
    phase = 2 * math.pi * time / POSITIONS
    positions = torch.stack([time / POSITIONS, torch.cos(phase), torch.sin(phase)], 1)
    hidden = torch.sin(8.0 * F.linear(positions, weights.first, weights.first_bias))
    hidden = torch.sin(F.linear(hidden, weights.second, weights.second_bias))
    rates = torch.logspace(-3, 0, len(weights.third), dtype=time.dtype, device=time.device).unsqueeze(1)
    window = torch.exp(-rates * time) * (-torch.expm1(-2 * rates)).sqrt()
    return F.linear(hidden, weights.third).t() * window + F.pad(weights.direct.unsqueeze(1), (0, length - 1))
''',
    "normalised": '''
def normalised(x, gain):
    """RMSNorm."""
    return F.rms_norm(x, gain.shape, gain, 1e-6)
''',
}
NEEDS: dict[str, tuple[str, ...]] = {
    "rotate": ("turned",),
    "rotate_real": ("turned",),
    "modal_filter": ("powers", "modal_kernel", "convolve"),
    "modal_kernel": ("powers",),
}
CHUNK = "CHUNK = {}  # tokens of the scan at a time; it changes speed and rounding only"


def pieces(names: Collection[str]) -> list[str]:
    """The text of these functions and of those that they call, in a fixed order."""
    wanted = set(names)
    for name in names:
        wanted.update(NEEDS.get(name, ()))
    return [text.strip("\n") for name, text in PIECES.items() if name in wanted]


def fragments(names: Collection[str]) -> list[Fragment]:
    """The same as fragments."""
    return [Fragment(text.removeprefix("def ").partition("(")[0], text) for text in pieces(names)]
