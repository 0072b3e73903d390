"""The class of generated files for the core of an H-Model with a carried stream (``h_model.carried.core``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from evodevo.h_model.carried.births import factors
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.carried.router import SharedRouter
from evodevo.h_model.source.tables import alpha_source, table_source
from evodevo.networks.source.embeddings import embedding_source
from evodevo.networks.source.routing import EVENED, LARGEST, pool_source
from evodevo.operators.source.rows import layer_source
from evodevo.operators.source.sheet import Fragment, SourceSheet, call, listed

SHARED_ROUTER = Fragment(
    "SharedRouter",
    '''
class SharedRouter(nn.Module):
    """Normalised and pooled messages (B, K, S, D) of any sources -> logits (B, P, K, targets) of their connections.

    ``sources`` and ``moments`` are the numbers of biases by source and by moment (the input step, then iterations), and
    ``own`` of maps by moment; with 0 there is one map for all."""

    def __init__(self, pool, width, targets, sources, moments, own):
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(width, targets)
        if own:
            self.linear = nn.ModuleList(nn.Linear(width, targets) for _ in range(own))
        self.source_bias = nn.Parameter(torch.zeros(sources, targets)) if sources else None
        self.moment_bias = nn.Parameter(torch.zeros(moments, targets)) if moments else None

    def forward(self, messages, masks, sources, moment):
        scaled = messages * torch.rsqrt(messages.square().mean(-1, keepdim=True) + 1e-6)
        pooled = self.pool(scaled.flatten(0, 1), None if masks is None else masks.flatten(0, 1))
        linear = self.linear
        if isinstance(linear, nn.ModuleList):
            linear = linear[min(moment, len(linear) - 1)]
        logits = linear(pooled.view(*messages.shape[:2], *pooled.shape[1:]).transpose(1, 2))
        if self.source_bias is not None:
            logits = logits + self.source_bias[sources]
        if self.moment_bias is not None:
            logits = logits + self.moment_bias[min(moment, len(self.moment_bias) - 1)]
        return logits
''',
)
SLOTS = Fragment(
    "in_slots",
    '''
def slot_index(values, chosen):
    """Indices (B, M, S, D) of the layers (B, P, M) in each slot."""
    return chosen.transpose(1, 2).unsqueeze(-1).expand(-1, -1, values.shape[2], values.shape[3])


def in_slots(values, chosen):
    """(B, H, S, D) of all layers -> (B, M, S, D) of those in the slots."""
    return values.gather(1, slot_index(values, chosen))


def replaced(values, chosen, slots):
    """(B, H, S, D) with what is in the slots replaced."""
    return values.scatter(1, slot_index(values, chosen), slots)
''',
)
MEAN = Fragment(
    "weighted_mean",
    '''
def weighted_mean(messages, weights, masks):
    """Mean (B, N, S, D) of messages (B, K, S, D) with weights (B, P, K, N), and the sums (B, N, P or S) of weights."""
    local = weights if masks is None else weights * masks.transpose(1, 2).unsqueeze(-1)
    total = local.sum(-2)
    share = local / torch.where(total > 0, total, torch.ones_like(total)).unsqueeze(-2)
    mean = (share.transpose(-1, -2) @ messages.transpose(1, 2)).transpose(1, 2)
    return mean, total.transpose(1, 2)
''',
)
_CLASS = '''
class {name}(nn.Module):
    """{count} hidden layers whose states are carried from one to the next, and {decides}.

    Each {where} runs at most {cap} of the layers in an iteration: those that are addressed. Targets are the hidden
    layers, then the outputs ({outputs}). A slot holds one of the layers that run."""

    def __init__(self):
        super().__init__()
        self.iterations = {iterations}  # T, which may be changed
        self.layers = nn.ModuleList({layers}){router}{embedding}{legal}

    def forward(self, values, masks{argument}):
        """What the outputs have, after the input step and after each iteration{about}.

        Inputs are (B, I, S, D), with their real positions (B, I, S) or None; each step gives (B, O, S, D) and
        (B, O, S) or None."""
        batch, inputs, length, width = values.shape
        {strength}
        first = strength.unsqueeze(-1).expand(-1, -1, -1, {outputs})
        y, _ = weighted_mean(values, first, masks)
        y_masks = None if masks is None else masks.any(1, keepdim=True).expand(-1, {outputs}, -1)
        yield y, y_masks
        if self.iterations == 0:
            return
        x = values.new_zeros(batch, {count}, length, width)
        known = {known}
        {first}
        x, known, chosen, inflow = self.receive(x, known, values, links, masks)
        for t in range(self.iterations):
            {seen}
            made = self.outputs(seen, known, chosen, inflow)
            gate = inflow.clamp(max=1.0)
            {real}
            change = in_slots(made, chosen) - in_slots(seen, chosen)
            messages = in_slots(x, chosen) + gate.transpose(1, 2).unsqueeze(-1) * change{message}
            if real is not None:
                messages = messages * real.unsqueeze(-1)
            most = gate.amax(-1, keepdim=True)
            strength = gate / torch.where(most > 0, most, torch.ones_like(most))
            {following}
            mean, total = weighted_mean(messages, links[2], real)
            y = y + total.clamp(max=1.0).unsqueeze(-1) * (mean - y)
            if t < self.iterations - 1:
                x, known, chosen, inflow = self.receive(x, known, messages, links, real)
            yield y, y_masks
{connect}
    def receive(self, x, known, messages, links, masks):
        """The new states of the layers that are addressed; the others keep theirs."""
        chosen, weights, _ = links
        mean, total = weighted_mean(messages, weights, masks)
        there = total > 0
        x = replaced(x, chosen, torch.where(there.unsqueeze(-1), mean, in_slots(x, chosen)))
        if known is not None:
            known = known.unsqueeze(-1)
            known = replaced(known, chosen, in_slots(known, chosen) | there.unsqueeze(-1)).squeeze(-1)
        return x, known, chosen, weights.sum(-2)

    def outputs(self, x, known, chosen, inflow):
        """The output of each layer, (B, H, S, D); it runs only for the samples that address it."""
        made = torch.zeros_like(x)
        for j, layer in enumerate(self.layers):
            rows = ((chosen == j) & (inflow > 0)).flatten(1).any(1)
            if rows.any():
                made[rows, j] = layer(x[rows, j], None if known is None else known[rows, j])
        return made
'''

_BY_ROUTER = '''
    def connect(self, logits, strength, legal, alpha):
        """The layers (B, P, M) that are addressed, and the weights of the connections to them and to the outputs."""
        logits, strength = logits / alpha, strength.unsqueeze(-1)
        may = legal[..., :{count}]
        soft = ({hidden}).masked_fill(~may, -1e9).softmax(-1) * may
        inflow = (soft * strength).sum(-2)
        ranks = evened(inflow).masked_fill(inflow == 0, -1.0)
        chosen = ranks.sort(dim=-1, descending=True, stable=True).indices[..., :{cap}]
        near = soft.gather(-1, chosen.unsqueeze(-2).expand(*soft.shape[:-1], {cap})){fewer}
        outputs = torch.sigmoid(logits[..., {count}:]) * legal[..., {count}:]
        return chosen, near * strength, outputs * strength
'''
_BY_TABLE = '''
    def connect(self, target, strength):
        """The given layer of each sample (B, 1, 1), and the weights of the connections to it and to the outputs."""
        weights = strength.unsqueeze(-1)
        return target.view(-1, 1, 1), weights, weights.expand(-1, -1, -1, {outputs})
'''


def carried_source(sheet: SourceSheet, core: CarriedCore, iterations: int, name: str) -> str:
    """Add the class of a core with a carried stream; returns its name.

    Args:
        sheet: The file.
        core: The core, in evaluation mode.
        iterations: T.
        name: Wanted name.
    """
    numbers = (core.input_count, core.output_count, core.alpha, core.alpha_rate, iterations)
    births = str({place: float(factor) for place, factor in core.births.items()})
    key = ("carried", core.structure.model_dump_json(), *numbers, births)
    return sheet.write(key, name, lambda free: _text(sheet, core, iterations, free))


def _text(sheet: SourceSheet, core: CarriedCore, iterations: int, name: str) -> str:
    structure, count = core.structure, core.hidden_count
    for fragment in (SLOTS, MEAN):
        sheet.add(fragment)
    layers = [layer_source(spec, sheet, structure.width, causal=structure.causal) for spec in structure.hidden]
    decisions = _by_table(core) if core.router is None else _by_router(sheet, core, core.router)
    embedding = embedding_source(sheet, core.embedding)
    kind, each = structure.iteration_embedding, core.per_position
    return _CLASS.format(
        name=name,
        count=count,
        where="position" if each else "sample",
        cap=min(structure.carried.most, count),
        outputs=core.output_count,
        iterations=iterations,
        layers=listed(layers, 8),
        embedding="" if embedding is None else f"\n        self.embedding = {embedding}",
        strength="\n        ".join(_strength(per_position=each)),
        known=f"torch.zeros(batch, {count}, length, dtype=torch.bool, device=values.device)"
        + ("" if each else " if masks is not None else None"),
        seen="seen = self.embedding(x, t)" if kind in ("input", "film") else "seen = x",
        real="real = (inflow > 0).transpose(1, 2)"
        if each
        else "real = None if known is None else in_slots(known.unsqueeze(-1), chosen).squeeze(-1)",
        message="\n            messages = self.embedding(messages, t)" if kind == "message" else "",
        **decisions,
    )


def _by_router(sheet: SourceSheet, core: CarriedCore, router: SharedRouter) -> dict[str, str]:
    """The parts of the class that decide who is addressed, where a router does."""
    structure, count = core.structure, core.hidden_count
    sheet.add(EVENED)
    cap = min(structure.carried.most, count)
    fewer = ""
    if structure.carried.m < cap:
        largest = sheet.add(LARGEST)
        fewer = f"\n        near = near * {largest}(evened(near).masked_fill(near == 0, -1.0), {structure.carried.m})"
    made = call(
        sheet.add(SHARED_ROUTER),
        pool_source(sheet, router.pool),
        structure.width,
        count + core.output_count,
        0 if router.source_bias is None else len(router.source_bias) + len(router.apart.layers),
        0 if router.moment_bias is None else len(router.moment_bias),
        0 if isinstance(router.linear, nn.Linear) else len(router.linear),
    )
    births = {place: float(factor) for place, factor in core.births.items()}
    passes = structure.passes(core.output_count) if structure.own else ()
    tables = {"legal_inputs": core.legal_input, "legal": core.legal_hidden}
    legal = ""
    for name, table in cast("dict[str, Tensor]", tables).items():
        each = []
        for absent in passes or ((),):
            born = [births.get(place, 1.0) > 0 and place not in absent for place in range(count)]
            each.append(table_source(sheet, table.cpu() & torch.tensor(born + [True] * core.output_count)))
        made_of = f"torch.stack([{', '.join(each)}])" if passes else each[0]
        legal += f'\n        self.register_buffer("{name}", {made_of}, persistent=False)'
    of_pass = "[number]" if passes else ""
    half = factors(births, count, torch.zeros((), dtype=torch.float64))
    hidden = f"logits[..., :{count}]"
    if half is not None:  # log b of each layer, and 0 of those that are not born, which are illegal
        legal += f'\n        self.register_buffer("births", torch.tensor({half.log().tolist()}), persistent=False)'
        hidden += " + self.births"
    return {
        "decides": "a router that all sources share",
        "router": f"\n        self.router = {made}",
        "legal": legal,
        "argument": ", number" if passes else "",
        "about": " of the pass ``number``" if passes else "",
        "first": "logits = self.router(values, masks, torch.arange(inputs, device=values.device), 0)\n        "
        f"links = self.connect(logits, strength, self.legal_inputs{of_pass}, {alpha_source(core, '0')})",
        "following": f"logits = self.router(messages, real, chosen + {core.input_count}, t + 1)\n            "
        f"links = self.connect(logits, strength, self.legal{of_pass}[chosen], {alpha_source(core, 't')})",
        "connect": _BY_ROUTER.format(count=count, cap=cap, fewer=fewer, hidden=hidden),
    }


def _by_table(core: CarriedCore) -> dict[str, str]:
    """The same where routes are given; the layers (B, T) come with the inputs."""
    routes = core.structure.carried.routes
    assert routes is not None, "there is no router"
    return {
        "decides": "given routes",
        "router": "",
        "legal": "",
        "argument": ", routes",
        "about": "",
        "first": "links = self.connect(routes[:, 0], strength)",
        "following": f"links = self.connect(routes[:, min(t + 1, {len(routes.slots) - 1})], strength)",
        "connect": _BY_TABLE.format(outputs=core.output_count),
    }


def _strength(*, per_position: bool) -> Iterator[str]:
    """Lines for the strength of each input: 1 where it has a real position, else 0."""
    if per_position:
        yield "strength = values.new_ones(batch, length, inputs)"
        yield "if masks is not None:"
        yield "    strength = masks.transpose(1, 2).to(values.dtype)"
    else:
        yield "strength = values.new_ones(batch, 1, inputs)"
        yield "if masks is not None:"
        yield "    strength = masks.any(-1).unsqueeze(1).to(values.dtype)"
