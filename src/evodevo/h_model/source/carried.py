"""The class of generated files for the core of an H-Model with a carried stream (``h_model.carried.core``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from torch import Tensor

from evodevo.h_model.carried.core import CarriedCore
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

    ``sources`` and ``moments`` are the numbers of biases by source and by moment (the input step, then iterations)."""

    def __init__(self, pool, width, targets, sources, moments):
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(width, targets)
        self.source_bias = nn.Parameter(torch.zeros(sources, targets)) if sources else None
        self.moment_bias = nn.Parameter(torch.zeros(moments, targets)) if moments else None

    def forward(self, messages, masks, sources, moment):
        scaled = messages * torch.rsqrt(messages.square().mean(-1, keepdim=True) + 1e-6)
        pooled = self.pool(scaled.flatten(0, 1), None if masks is None else masks.flatten(0, 1))
        logits = self.linear(pooled.view(*messages.shape[:2], *pooled.shape[1:]).transpose(1, 2))
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
    """{count} hidden layers whose states are carried from one to the next, and a router that all sources share.

    Each {where} runs at most {cap} of the layers in an iteration: those that are addressed. Targets are the hidden
    layers, then the outputs ({outputs}). A slot holds one of the layers that run."""

    def __init__(self):
        super().__init__()
        self.iterations = {iterations}  # T, which may be changed
        self.layers = nn.ModuleList({layers})
        self.router = {router}{embedding}
        self.register_buffer("legal_inputs", {legal_inputs}, persistent=False)
        self.register_buffer("legal", {legal}, persistent=False)

    def forward(self, values, masks):
        """What the outputs have, after the input step and after each iteration.

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
        logits = self.router(values, masks, torch.arange(inputs, device=values.device), 0)
        links = self.connect(logits, strength, self.legal_inputs, {first_alpha})
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
            logits = self.router(messages, real, chosen + {inputs}, t + 1)
            links = self.connect(logits, strength, self.legal[chosen], {alpha})
            mean, total = weighted_mean(messages, links[2], real)
            y = y + total.clamp(max=1.0).unsqueeze(-1) * (mean - y)
            if t < self.iterations - 1:
                x, known, chosen, inflow = self.receive(x, known, messages, links, real)
            yield y, y_masks

    def connect(self, logits, strength, legal, alpha):
        """The layers (B, P, M) that are addressed, and the weights of the connections to them and to the outputs."""
        logits, strength = logits / alpha, strength.unsqueeze(-1)
        may = legal[..., :{count}]
        soft = logits[..., :{count}].masked_fill(~may, -1e9).softmax(-1) * may
        inflow = evened((soft * strength).sum(-2))
        chosen = inflow.sort(dim=-1, descending=True, stable=True).indices[..., :{cap}]
        near = soft.gather(-1, chosen.unsqueeze(-2).expand(*soft.shape[:-1], {cap})){fewer}
        outputs = torch.sigmoid(logits[..., {count}:]) * legal[..., {count}:]
        return chosen, near * strength, outputs * strength

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


def carried_source(sheet: SourceSheet, core: CarriedCore, iterations: int, name: str) -> str:
    """Add the class of a core with a carried stream; returns its name.

    Args:
        sheet: The file.
        core: The core, in evaluation mode.
        iterations: T.
        name: Wanted name.
    """
    numbers = (core.input_count, core.output_count, core.alpha, core.alpha_rate, iterations)
    key = ("carried", core.structure.model_dump_json(), *numbers)
    return sheet.write(key, name, lambda free: _text(sheet, core, iterations, free))


def _text(sheet: SourceSheet, core: CarriedCore, iterations: int, name: str) -> str:
    structure, count, router = core.structure, core.hidden_count, core.router
    for fragment in (EVENED, SLOTS, MEAN):
        sheet.add(fragment)
    layers = [layer_source(spec, sheet, structure.width, causal=structure.causal) for spec in structure.hidden]
    cap = min(structure.carried.most, count)
    fewer = ""
    if structure.carried.m < cap:
        fewer = f"\n        near = near * {sheet.add(LARGEST)}(evened(near), {structure.carried.m})"
    embedding = embedding_source(sheet, core.embedding)
    kind, each = structure.iteration_embedding, core.per_position
    made = call(
        sheet.add(SHARED_ROUTER),
        pool_source(sheet, router.pool),
        structure.width,
        count + core.output_count,
        0 if router.source_bias is None else len(router.source_bias),
        0 if router.moment_bias is None else len(router.moment_bias),
    )
    return _CLASS.format(
        name=name,
        count=count,
        where="position" if each else "sample",
        cap=cap,
        outputs=core.output_count,
        inputs=core.input_count,
        iterations=iterations,
        layers=listed(layers, 8),
        router=made,
        embedding="" if embedding is None else f"\n        self.embedding = {embedding}",
        legal_inputs=table_source(sheet, cast(Tensor, core.legal_input)),
        legal=table_source(sheet, cast(Tensor, core.legal_hidden)),
        strength="\n        ".join(_strength(per_position=each)),
        known=f"torch.zeros(batch, {count}, length, dtype=torch.bool, device=values.device)"
        + ("" if each else " if masks is not None else None"),
        first_alpha=alpha_source(core, "0"),
        alpha=alpha_source(core, "t"),
        seen="seen = self.embedding(x, t)" if kind in ("input", "film") else "seen = x",
        real="real = (inflow > 0).transpose(1, 2)"
        if each
        else "real = None if known is None else in_slots(known.unsqueeze(-1), chosen).squeeze(-1)",
        message="\n            messages = self.embedding(messages, t)" if kind == "message" else "",
        fewer=fewer,
    )


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
