"""The class of generated files for the router of a zoo (``module_zoo.router``)."""

from __future__ import annotations

from collections.abc import Iterator

from evodevo.module_zoo.router.base import ModuleRouter
from evodevo.module_zoo.router.gates import LEAST_ALPHA, LEAST_SUM, MOST_ALPHA
from evodevo.module_zoo.router.graph_attention import LONGEST, TINY
from evodevo.module_zoo.spec import Gate, ZooRouterStructure
from evodevo.networks.source.routing import EVENED, LARGEST, SPARSEMAX
from evodevo.operators.source.sheet import Fragment, SourceSheet

ENTMAX15 = Fragment(
    "entmax15",
    '''
def entmax15(logits):
    """Entmax of alpha 1.5 over the last axis (Peters et al. 2019), exactly."""
    x = (logits - logits.amax(-1, keepdim=True)).clamp(min=-3.0) / 2
    sorted_, _ = x.sort(-1, descending=True)
    count = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    mean, square = sorted_.cumsum(-1) / count, sorted_.square().cumsum(-1) / count
    threshold = mean - ((1 - count * (square - mean.square())) / count).clamp(min=0).sqrt()
    support = (threshold <= sorted_).sum(-1, keepdim=True)
    return (x - threshold.gather(-1, support - 1)).clamp(min=0).square()
''',
)
ENTMAX = Fragment(
    "entmax",
    '''
def entmax(logits, alpha):
    """Entmax of alpha over the last axis, by bisection."""
    x = (logits - logits.amax(-1, keepdim=True)) * (alpha - 1)
    low, step = x.amax(-1, keepdim=True) - 1, 1 - (1 / x.shape[-1]) ** (alpha - 1)

    def weights(threshold):
        return (x - threshold).clamp(min=0) ** (1 / (alpha - 1))

    for _ in range(30):
        step = step / 2
        low = torch.where(weights(low + step).sum(-1, keepdim=True) >= 1, low + step, low)
    found = weights(low + step)
    return found / found.sum(-1, keepdim=True)
''',
)
_RELU = f"""opened = logits.relu()
        weights = opened / opened.sum(-1, keepdim=True).clamp(min={LEAST_SUM!r})"""
_ALPHA = f'(1 + F.softplus(self.gate["raw_alpha"])).clamp({LEAST_ALPHA}, {MOST_ALPHA})'
GATES: dict[Gate, tuple[str, tuple[Fragment, ...]]] = {
    "softmax": ("weights = logits.softmax(-1)", ()),
    "gumbel": ("weights = logits.softmax(-1)", ()),
    "sparsemax": ("weights = sparsemax(logits, -1)", (SPARSEMAX,)),
    "entmax15": ("weights = entmax15(logits)", (ENTMAX15,)),
    "entmax": (f"weights = entmax(logits, {_ALPHA})", (ENTMAX,)),
    "relu": (_RELU, ()),
}
ROWS = Fragment(
    "Rows",
    '''
class Rows(nn.Module):
    """A row of parameters for each module, by its id."""

    def __init__(self, ids, size):
        super().__init__()
        self.ids = ids
        self.of = nn.ParameterDict({name: nn.Parameter(torch.empty(size)) for name in ids})

    def forward(self):
        return torch.stack([self.of[name] for name in self.ids])
''',
)
SCORES = Fragment(
    "Scores",
    '''
class Scores(nn.Module):
    """A small network from f (B, D) to a logit of each module (B, N)."""

    def __init__(self, ids, width, hidden):
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.rows = Rows(ids, hidden + 1)

    def forward(self, f):
        rows = self.rows()
        return F.linear(F.gelu(self.inner(f)), rows[:, :-1], rows[:, -1])
''',
    (ROWS,),
)
_ABOUT = '''\
        """Weights of the modules in each head (B, H, N), from f (B, D) and keys (B or 1, N, D).

        Keys are the outputs of the modules, or what takes their place. ``legal`` (B, N) is false at modules that cannot
        be chosen; None: all can."""'''
_CHOICE = '''
    def kept(self, weights):
        """Head weights of the {count} modules with the largest mean over heads, which share what the others had."""
        hard = weights * largest(evened(weights.mean(1)), {count}).unsqueeze(1)
        share = hard.sum((1, 2), keepdim=True) / weights.sum((1, 2), keepdim=True).clamp(min={least})
        return hard / share.clamp(min={least})
'''
_SYNERGY = '''
    def synergy(self, agreement, legal):
        """The gain of each module by the others (B, H, N): how much they agree, (B or 1, H, N, N).

        A module counts for those that it agrees with; ``legal`` (B, N) or None says which modules are there."""
        allowed = {own}
        if legal is not None:
            allowed = allowed & legal[:, None, None, :]
        agreement_of = agreement.masked_fill(~allowed, -1e9)
        shares = (agreement_of - agreement_of.amax(-1, keepdim=True)).exp() * allowed
        return {sign}(shares * {gains}).sum(-1) / shares.sum(-1).clamp(min={tiny})
'''
_OWN = {
    True: "torch.ones_like(agreement[0, 0], dtype=torch.bool)",
    False: "~torch.eye(agreement.shape[-1], dtype=torch.bool, device=agreement.device)",
}
_GAINS = {"identity": "agreement", "relu": "agreement.relu()", "tanh": "agreement.tanh()"}


def router_source(
    sheet: SourceSheet, router: ModuleRouter, structure: ZooRouterStructure, ids: tuple[str, ...], width: int
) -> str:
    """The class ``ModuleRouter``; returns its name. It has ``forward(f, keys, legal)``, which gives the weights of the
    modules in each head (B, H, N), and ``mix(weights, outputs, f)``, the mixture z (B, D).

    Args:
        sheet: The file.
        router: The router.
        structure: The zoo's settings of it.
        ids: Modules that count, N.
        width: D.
    """
    lines = list(_Router(sheet, router, structure, ids, width).lines())
    return sheet.write_class(("router", id(router)), "ModuleRouter", "\n".join(lines))


class _Router:
    def __init__(
        self, sheet: SourceSheet, router: ModuleRouter, structure: ZooRouterStructure, ids: tuple[str, ...], width: int
    ) -> None:
        self.sheet, self.router, self.structure, self.ids, self.width = sheet, router, structure, ids, width
        self.graph = structure.kind == "graph_attention"
        self.heads = structure.heads if self.graph else 1
        limit = router.structure.top_k  # none of a router of equal weights
        self.limit = limit if limit is not None and limit < len(ids) else None
        self.gate: Gate = router.structure.gate

    def lines(self) -> Iterator[str]:
        """The text of the class."""
        expression, needs = GATES[self.gate]
        for need in (*needs, *((EVENED, LARGEST) if self.limit else ())):
            self.sheet.add(need)
        yield from self._head()
        yield ""
        yield "    def forward(self, f, keys, legal):"
        yield _ABOUT
        yield from self._logits()
        yield "        if legal is not None:"
        yield "            logits = logits.masked_fill(~legal.unsqueeze(1), -1e9)"
        yield f"        {expression}"
        yield "        if legal is not None:"
        yield "            weights = weights * legal.unsqueeze(1)"
        yield "        return self.kept(weights)" if self.limit else "        return weights"
        if self.limit:
            yield _CHOICE.format(count=self.limit, least=repr(LEAST_SUM)).rstrip()
        if self.graph and self.structure.synergy != "off":
            yield _SYNERGY.format(
                own=_OWN[self.structure.synergy_self],
                sign="-" if self.structure.synergy == "complement" else "",
                gains=_GAINS[self.structure.synergy_activation],
                tiny=repr(TINY),
            ).rstrip()
        yield ""
        yield from self._mix()

    def _head(self) -> Iterator[str]:
        structure, width = self.structure, self.width
        yield "class ModuleRouter(nn.Module):"
        yield '    """Decides for each sample which modules count, and how much."""'
        yield ""
        yield "    def __init__(self):"
        yield "        super().__init__()"
        if structure.norm:
            yield f"        self.norm = nn.LayerNorm({width})"
        if self.gate == "entmax":
            yield '        self.gate = nn.ParameterDict({"raw_alpha": nn.Parameter(torch.empty(()))})'
        values = []
        if not structure.identity:
            maps = 1 if structure.values == "concat" else self.heads
            values.append(f'"value": nn.Linear({width}, {maps * width}, bias=False)')
        if structure.values == "concat":
            values.append(f'"output": nn.Linear({width}, {width}, bias=False)')
        if values:
            yield f"        self.values = nn.ModuleDict({{{', '.join(values)}}})"
        if structure.kind == "mlp_gate":
            hidden = structure.predictor_hidden or width
            yield f"        self.scores = {self.sheet.add(SCORES)}({list(self.ids)}, {width}, {hidden})"
        if structure.kind == "architecture":
            yield f"        self.rows = {self.sheet.add(ROWS)}({list(self.ids)}, 1)"
        if not self.graph:
            return
        if not structure.identity:
            yield f"        self.query = nn.Linear({width}, {width}, bias=False)"
            yield f"        self.key = nn.Linear({width}, {width}, bias=False)"
        if structure.synergy != "off":
            yield f"        self.raw_gamma = nn.Parameter(torch.empty({self.heads}))"
        if structure.synergy == "bilinear":
            size = width // self.heads
            yield f"        self.form = nn.Parameter(torch.empty({self.heads}, {size}, {size}))"
        if structure.temperature == "learned":
            yield "        self.log_temperature = nn.Parameter(torch.empty(()))"
        if structure.head_mix == "learned":
            yield f"        self.head_mix = nn.Parameter(torch.empty({self.heads}))"
        if structure.contribution:
            yield f'        self.register_buffer("contribution", torch.zeros({len(self.ids)}))  # a bias of each module'

    def _logits(self) -> Iterator[str]:
        structure = self.structure
        if structure.kind == "mean":
            yield f"        logits = f.new_zeros(len(f), 1, {len(self.ids)})"
        elif structure.kind == "mlp_gate":
            yield "        logits = self.scores(f).unsqueeze(1)"
        elif structure.kind == "architecture":
            yield "        logits = self.rows().mT.expand(len(f), 1, -1)"
        if not self.graph:
            return
        key = "self.norm(keys)" if structure.norm else "keys"
        key, query = (key, "f") if structure.identity else (f"self.key({key})", "self.query(f)")
        scale = repr((self.width // self.heads) ** -0.5)
        yield f"        keys = {key}.unflatten(-1, ({self.heads}, -1)).transpose(1, 2)  # (B or 1, H, N, P)"
        yield f"        query = {query}.unflatten(-1, ({self.heads}, -1)).unsqueeze(-1)  # (B, H, P, 1)"
        yield f"        logits = (keys @ query).squeeze(-1) * {scale}"
        if structure.temperature == "learned":
            yield f"        logits = logits / self.log_temperature.clamp({-LONGEST!r}, {LONGEST!r}).exp()"
        if structure.synergy != "off":
            others = "keys @ self.form" if structure.synergy == "bilinear" else "keys"
            yield f"        agreement = {others} @ keys.mT * {scale}"
            yield "        logits = logits + F.softplus(self.raw_gamma).unsqueeze(-1) * self.synergy(agreement, legal)"
        if structure.contribution:
            yield "        logits = logits + self.contribution"
        if structure.head_mix == "learned":
            yield "        logits = (logits * self.head_mix.unsqueeze(-1)).sum(1, keepdim=True).expand_as(logits)"

    def _mix(self) -> Iterator[str]:
        structure = self.structure
        yield "    def mix(self, weights, outputs, f):"
        yield '        """The mixture z (B, D) of the modules\' outputs (B, N, D)."""'
        if structure.norm:
            yield "        outputs = self.norm(outputs)"
        if structure.values == "concat":
            if structure.identity:
                yield f"        own = outputs.unflatten(-1, ({self.heads}, -1)).transpose(1, 2)  # (B, H, N, P)"
                yield "        mixed = (weights.unsqueeze(-2) @ own).flatten(1)"
            else:
                yield f'        maps = self.values["value"].weight.unflatten(0, ({self.heads}, -1))  # (H, P, D)'
                yield '        mixed = torch.einsum("bhd,hpd->bhp", weights @ outputs, maps).flatten(1)'
            yield '        mixed = self.values["output"](mixed)'
        else:
            yield "        mixed = (weights.mean(1, keepdim=True) @ outputs).squeeze(1)"
            if not structure.identity:
                yield f'        maps = self.values["value"].weight.unflatten(0, ({self.heads}, -1))'
                yield "        mixed = F.linear(mixed, maps.mean(0))"
        yield "        return mixed + f" if structure.residual else "        return mixed"
