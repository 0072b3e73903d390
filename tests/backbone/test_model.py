"""Backbones of random genomes against docs/spec/star.md#laws."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from evodevo.backbone.genome import BackboneGenome, feature_mask
from evodevo.backbone.model import Backbone, GenerationState
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import GenomeError, UsageError
from evodevo.experiments.flop_counter import counting
from evodevo.operators.classes import liv_classes
from evodevo.operators.differential import Differential
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.testing.networks import small_backbone, text_batch

VOCABULARY = 37
CLASSES = liv_classes()
NAMES = tuple(row.name for row in CLASSES.values())
SIZES: dict[str, Any] = {"width": 16, "head_size": 4, "modes": 4, "band": 6, "chunk": 8, "max_length": 160}


def space_of(depth: int = 6, *, sizes: dict[str, Any] | None = None, **options: Any) -> BackboneSpace:
    dims = Dimensions(**(SIZES | (sizes or {})))
    return BackboneSpace(BackboneSettings(**({"depth": depth, "classes": NAMES, "dimensions": dims} | options)))


FREE = space_of(residuals=True, share_queries=True, partial_featurizers=True)


@functools.cache
def random_genomes(count: int, depth: int = 6, seed: int = 5) -> list[BackboneGenome]:
    """Half sampled freely; half of few classes in one group, so that sharing happens in every strategy."""
    rng = generator(seed)
    genomes = []
    for number in range(count):
        if number % 2:
            genomes.append(space_of(depth, **_OPTIONS).sample(rng))
            continue
        few = tuple(str(name) for name in rng.choice(NAMES, size=2, replace=False))
        genome = space_of(depth, **_OPTIONS | {"classes": few}).sample(rng)
        genomes.append(tuple((c, 1 + i % 2, s, 1, t, r) for c, i, s, _, t, r in genome))
    return [FREE.repair(genome, rng) for genome in genomes]


_OPTIONS: dict[str, Any] = {"residuals": True, "share_queries": True, "partial_featurizers": True}


def model_of(genome: BackboneGenome, *, space: BackboneSpace = FREE, seed: int = 0, tied: bool = True) -> Backbone:
    """In float64, and with no parameter left at an initial value that hides it."""
    model = small_backbone(space, genome, VOCABULARY, seed, tied=tied).double()
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=source, dtype=torch.float64)
    return model


def tokens_of(batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def in_pieces(
    model: Backbone, tokens: Tensor, pieces: list[int], mask: Tensor | None = None, state: GenerationState | None = None
) -> tuple[Tensor, GenerationState]:
    state = model.initial_state(len(tokens)) if state is None else state
    logits, start = [], 0
    for length in pieces:
        part = slice(start, start + length)
        logits.append(model.next_logits(tokens[:, part], mask=None if mask is None else mask[:, part], state=state))
        start += length
    return torch.cat(logits, 1), state


def shown(genome: BackboneGenome) -> str:
    return FREE.print(genome)


GENOMES = random_genomes(12)


# Order, steps, splits, batches


@pytest.mark.parametrize("genome", GENOMES[:8], ids=shown)
def test_one_forward_for_everything(genome: BackboneGenome) -> None:
    model, length = model_of(genome).requires_grad_(False), 24
    tokens = tokens_of(2, length)
    logits = model.next_logits(tokens)
    for pieces in ([length], [1] * length, [0, 7, 0, 1, 10, 6]):
        split, state = in_pieces(model, tokens, pieces)
        torch.testing.assert_close(split, logits, rtol=0, atol=1e-10)
        assert state.length == length
    changed = tokens.clone()
    changed[:, 12] = (changed[:, 12] + 1) % VOCABULARY
    moved = (model.next_logits(changed) - logits).abs()
    convolves = any(CLASSES[segment[0]].spec.operator[0] in (8, 12) for segment in genome)
    assert float(moved[:, :12].max()) <= (1e-12 if convolves else 0.0)
    assert float(moved[:, 12].max()) > 1e-6
    padded = torch.cat([tokens_of(2, 9, seed=3), tokens], 1)
    mask = torch.ones_like(padded, dtype=torch.bool)
    mask[:, :9] = False
    mask[1, :20] = False  # whole pieces of the second row are padding
    for pieces in (None, [33], [4, 13, 0, 16]):
        rows = model.next_logits(padded, mask=mask) if pieces is None else in_pieces(model, padded, pieces, mask)[0]
        torch.testing.assert_close(rows[0, 9:], logits[0], rtol=0, atol=1e-10)
        torch.testing.assert_close(rows[1:, 20:], model.next_logits(padded[1:, 20:]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("genome", GENOMES[:4], ids=shown)
def test_single_precision(genome: BackboneGenome) -> None:
    model = small_backbone(FREE, genome, VOCABULARY, 0).requires_grad_(False)
    tokens = tokens_of(2, 33)
    logits = model.next_logits(tokens)
    steps, _ = in_pieces(model, tokens, [1] * 33)
    for length in (1, 2, 3, 7, 8, 9, 33):
        torch.testing.assert_close(model.next_logits(tokens[:, :length]), steps[:, :length], rtol=0, atol=1e-5)
    half = copy.deepcopy(model).bfloat16()
    assert half.next_logits(tokens).dtype == torch.bfloat16
    assert float((half.next_logits(tokens).float() - logits).norm() / logits.norm()) < 0.2
    pieces, _ = in_pieces(half, tokens, [17, *([1] * 16)])
    assert float((pieces.float() - logits).norm() / logits.norm()) < 0.2


@pytest.mark.parametrize("genome", GENOMES[:4], ids=shown)
def test_autocast_trains_and_continues(genome: BackboneGenome) -> None:
    model = small_backbone(FREE, genome, VOCABULARY, 0)
    tokens = tokens_of(2, 33)
    exact = model.loss(text_batch(tokens))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.loss(text_batch(tokens))
        with torch.no_grad():
            logits, _ = in_pieces(model, tokens, [20, 1, 12])
    assert abs(float(loss.detach()) - float(exact.detach())) < 0.05
    assert bool(logits.isfinite().all())
    loss.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


# Stated = built


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["modal", "mlp"])
def test_static_cost_is_what_is_built_and_used(kind: str) -> None:
    """Every class and most sharing strategies; lengths 1, 7 and 40."""
    sizes = {"long_filter": kind}
    space = space_of(sizes=sizes, **_OPTIONS)
    seen: set[int] = set()
    strategies: set[tuple[int, int]] = set()
    for number, genome in enumerate(random_genomes(50 if kind == "modal" else 6, seed=17)):
        seen |= {segment[0] for segment in genome}
        strategies |= {(segment[0], segment[4]) for segment in genome}
        model = small_backbone(space, genome, VOCABULARY, 0, tied=number % 3 > 0)
        model.requires_grad_(False)
        if number % 4 == 0:
            model.bfloat16()
        element = model.embedding.weight.element_size()
        state, length = model.initial_state(2, 40), 0
        for target in (1, 7, 40):
            model.next_logits(tokens_of(2, target - length), state=state)
            length = target
            cost = space.cost(
                genome,
                length=length,
                batch=2,
                convention="actual",
                vocabulary=VOCABULARY,
                tied=number % 3 > 0,
                element_bytes=element,
            )
            assert state.used_bytes() == cost.cache_bytes, (space.print(genome), length)
        built = sum(parameter.numel() for parameter in model.parameters())
        assert cost.parameters + cost.embedding_parameters == built, space.print(genome)
        stored = sum(tensor.numel() for tensor in model.state_dict().values())
        assert stored == built
    if kind == "modal":
        assert seen == set(CLASSES)
        assert len(strategies) > 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["modal", "mlp"])
def test_stated_products_are_executed(kind: str) -> None:
    """Matrix products of a prefill, the full square of scores: equal to what torch counts on the meta device."""
    space = space_of(sizes={"width": 64, "head_size": None, "long_filter": kind, "chunk": 32}, **_OPTIONS)
    dims = space.settings.dimensions
    long = [number for number, row in CLASSES.items() if row.spec.operator[0] in (8, 12)]
    alone = CLASSES if kind == "modal" else long
    genomes = [*random_genomes(2, seed=23), *(((number, 1, 1, 1, 1, 1),) for number in alone)]
    for genome in genomes:
        plans = space.plan(genome)
        with torch.device("meta"):
            model = small_backbone(space, genome, VOCABULARY)
        for length in (1, 45) if len(genome) > 1 else (45,):
            with counting(model) as counter:
                model.next_logits(torch.zeros(1, length, dtype=torch.long, device="meta"))
            products = sum(
                plan.spec.copies * plan.spec.matmul_flops(plan.owned, dims, length, decode=False, causal=False)
                for plan in plans
            )
            head = 2 * length * dims.width * VOCABULARY
            assert products + head == counter.flops, (space.print(genome), length)


def test_the_papers_transformer_on_meta() -> None:
    """docs/spec/star.md#static-cost: 84,934,656 parameters and 2·P·L + 12·4·L²·d FLOPs at 4096, counted by torch."""
    space = BackboneSpace()
    with torch.device("meta"):
        model = small_backbone(space, space.named("transformer++", 24), 2, tied=True)
    parameters = sum(
        p.numel() for name, p in model.named_parameters() if "norm" not in name and "embedding" not in name
    )
    assert parameters == 84_934_656
    with FlopCounterMode(display=False) as counter:
        model.hidden(torch.zeros(1, 4096, dtype=torch.long, device="meta"))
    assert counter.get_total_flops() == 2 * 84_934_656 * 4096 + 12 * 4 * 4096**2 * 768


# Sharing


def shared_pair(number: int, *, tied: bool) -> BackboneGenome:
    """Two LIVs of a class around a third, with everything shared: weights or features."""
    spec = CLASSES[number].spec
    everything = 2 ** len(spec.groups)
    segment = (number, 1, 2, 1, 1, 1) if tied else (number, 1, 1, 1, everything, 1)
    second = (number, 1, 2, 2, 1, 3) if tied else (number, 2, 1, 1, everything, 3)
    return (segment, (9 if number != 9 else 1, 1, 1, 1, 1, 2), second)


@pytest.mark.parametrize("number", CLASSES, ids=lambda number: CLASSES[number].name)
def test_shared_featurizers_are_one(number: int) -> None:
    """One storage, one entry in the state dict, the sum of both gradients, and equal after steps."""
    genome = shared_pair(number, tied=True)
    model = model_of(genome)
    first, third = (_copies(model.blocks[position]) for position in (0, 2))
    for one, other in zip(first, third, strict=True):
        for role in one.spec.groups:
            for a, b in zip(one.groups[role].parameters(), other.groups[role].parameters(), strict=True):
                assert a.data_ptr() == b.data_ptr()
    names = [name for name in model.state_dict() if name.startswith("bank.")]
    assert all(name.split(".")[1].split("_")[0] in ("0", "1") for name in names)
    pointers = [tensor.data_ptr() for tensor in model.state_dict().values()]
    assert len(set(pointers)) == len(pointers)

    apart = ((number, 1, 1, 1, 1, 1), genome[1], (number, 2, 1, 2, 1, 3))
    unshared = model_of(apart)
    unshared.load_state_dict(
        {name: model.state_dict()[name.replace("bank.2_", "bank.0_")] for name in unshared.state_dict()}
    )
    windows = tokens_of(2, 20)
    model.loss(text_batch(windows)).backward()
    unshared.loss(text_batch(windows)).backward()
    twins = dict(unshared.named_parameters())
    for name, parameter in model.named_parameters():
        wanted = twins[name].grad
        if name.startswith("bank.0_"):
            wanted = wanted + twins[name.replace("bank.0_", "bank.2_")].grad
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-9, atol=1e-12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    optimizer.step()
    for one, other in zip(first, third, strict=True):
        for role in one.spec.groups:
            for a, b in zip(one.groups[role].parameters(), other.groups[role].parameters(), strict=True):
                assert torch.equal(a, b)


def _copies(block: Any) -> tuple[Any, ...]:
    operator = block.operator
    return (operator.first, operator.second) if isinstance(operator, Differential) else (operator,)


def strategies_of(number: int) -> list[int]:
    """Of borrowing: nothing, each group alone, everything."""
    spec = CLASSES[number].spec
    masks = {s: feature_mask(spec, s) for s in range(1, 2 ** len(spec.groups) + 1)}
    return [s for s, mask in masks.items() if len(mask) in {0, 1, len(spec.groups)}]


BORROWERS = [(number, strategy) for number in (1, 3, 5, 8, 9, 21) for strategy in strategies_of(number)]
BORROWERS += [(number, 2 ** len(CLASSES[number].spec.groups)) for number in (10, 14, 17)]  # two copies that lend all


@pytest.mark.parametrize(("number", "strategy"), BORROWERS)
def test_borrowers_use_the_owners_tensors(number: int, strategy: int) -> None:
    """The borrower's group *is* the owner's, it has no weights for it; gradients are those of the unrolled model."""
    spec = CLASSES[number].spec
    borrowed = feature_mask(spec, strategy)
    genome = ((number, 1, 1, 1, strategy, 1), (number, 2, 1, 1, strategy, 2))
    model = model_of(genome)
    for one in _copies(model.blocks[1]):
        assert set(one.groups) == set(spec.groups) - borrowed
    assert not any(
        name.split(".")[1].startswith(f"1_{role}")
        for name in dict(model.bank.named_parameters("bank"))
        for role in borrowed
    )

    windows = tokens_of(2, 18)
    loss = model.loss(text_batch(windows))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    seen: list[dict[str, Any]] = []

    def by_hand() -> Tensor:
        first, second = model.blocks[0], model.blocks[1]
        x = model.embedding(windows[:, :-1])
        output = first(x)
        seen.append(output.groups)
        output = second(output.y, shared={role: output.groups[role] for role in borrowed})
        seen.append(output.groups)
        return F.cross_entropy(model.logits(model.norm(output.y)).flatten(0, 1), windows[:, 1:].flatten())

    assert torch.equal(by_hand(), loss)
    for one, other in zip(gradients, torch.autograd.grad(by_hand(), list(model.parameters())), strict=True):
        torch.testing.assert_close(one, other)
    for role in spec.groups:
        assert (_first(seen[0][role]) is _first(seen[1][role])) == (role in borrowed)

    model.checkpointing = True
    for one, other in zip(
        gradients, torch.autograd.grad(model.loss(text_batch(windows)), list(model.parameters())), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    # With a cache, in pieces that gradients flow through: the same loss and gradients.
    model.checkpointing = False
    logits, _ = in_pieces(model, windows[:, :-1], [5, 1, 11])
    pieces = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    for one, other in zip(gradients, torch.autograd.grad(pieces, list(model.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def _first(group: Any) -> Any:
    """Of a group that is several tensors, or two copies, the first tensor."""
    while isinstance(group, dict | tuple):
        group = group["first"] if isinstance(group, dict) else group[0]
    return group


def test_owners_weights_move_the_borrower() -> None:
    model = model_of(((1, 1, 1, 1, 4, 1), (9, 1, 1, 1, 1, 2), (1, 2, 1, 1, 4, 3))).requires_grad_(False)
    x = torch.randn(1, 8, 16, dtype=torch.float64)

    def third() -> Tensor:
        groups = model.blocks[0](x).groups
        return model.blocks[2](x, shared={role: groups[role] for role in ("key", "value")}).y

    before = third()
    model.bank["0_key"].weight.add_(0.3)
    assert float((third() - before).abs().max()) > 1e-3


@pytest.mark.parametrize("genome", GENOMES[:6], ids=shown)
def test_checkpointing_changes_nothing(genome: BackboneGenome) -> None:
    model, windows = model_of(genome), tokens_of(2, 24)
    plain = torch.autograd.grad(model.loss(text_batch(windows)), list(model.parameters()), allow_unused=True)
    model.checkpointing = True
    again = torch.autograd.grad(model.loss(text_batch(windows)), list(model.parameters()), allow_unused=True)
    for a, b in zip(plain, again, strict=True):
        assert a is not None, "a parameter without a gradient would stop data-parallel training"
        torch.testing.assert_close(a, b)


# The rest of docs/spec/star.md#laws


@pytest.mark.parametrize("genome", GENOMES[:6], ids=shown)
def test_equal_hash_equal_model(genome: BackboneGenome) -> None:
    canonical = FREE.canonical(genome)
    one, two = (small_backbone(FREE, g, VOCABULARY, 3) for g in (genome, canonical))
    assert list(one.state_dict()) == list(two.state_dict())
    tokens = tokens_of(2, 12)
    assert torch.equal(one.next_logits(tokens), two.next_logits(tokens))


def test_seeds_alone_decide_and_the_global_stream_stays() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    one, two, other = (small_backbone(FREE, GENOMES[0], VOCABULARY, seed) for seed in (7, 7, 8))
    assert torch.equal(torch.rand(3), wanted)
    tokens = tokens_of(1, 5)
    assert torch.equal(one.next_logits(tokens), two.next_logits(tokens))
    assert not torch.equal(one.next_logits(tokens), other.next_logits(tokens))
    with pytest.raises(GenomeError):
        small_backbone(FREE, ((1, 2, 1, 1, 1, 1),), VOCABULARY, 0)


@pytest.mark.slow
def test_turning_sharing_on_never_grows_the_live_state() -> None:
    for genome in GENOMES:
        alone = tuple((*segment[:4], 1, segment[5]) for segment in genome)
        used = []
        for each in (genome, alone):
            model = small_backbone(FREE, each, VOCABULARY, 0).requires_grad_(False)
            state = model.initial_state(1)
            model.next_logits(tokens_of(1, 30), state=state)
            used.append(state.used_bytes())
        assert used[0] <= used[1]


@pytest.mark.parametrize("number", CLASSES, ids=lambda number: CLASSES[number].name)
def test_positions_are_relative(number: int) -> None:
    """Padding shifts every position; and decoding runs on far beyond any length seen."""
    model = model_of(((number, 1, 1, 1, 1, 1),)).requires_grad_(False)
    tokens = tokens_of(1, 20)
    shifted = torch.cat([tokens_of(1, 150, seed=2), tokens], 1)
    mask = torch.arange(170).unsqueeze(0) >= 150
    torch.testing.assert_close(
        model.next_logits(shifted, mask=mask)[:, 150:], model.next_logits(tokens), rtol=0, atol=1e-10
    )
    logits, _ = in_pieces(model, tokens_of(1, 320), [300, *([1] * 20)])
    assert bool(logits.isfinite().all())


def test_bounded_filters_raise_at_their_end() -> None:
    space = space_of(sizes={"long_filter": "mlp", "max_length": 12}, **_OPTIONS)
    model = small_backbone(space, ((8, 1, 1, 1, 1, 1),), VOCABULARY, 0).requires_grad_(False)
    with pytest.raises(UsageError, match="12"):
        model.next_logits(tokens_of(1, 13))
    state = model.initial_state(1)
    model.next_logits(tokens_of(1, 12), state=state)
    with pytest.raises(UsageError, match="12"):
        model.next_logits(tokens_of(1, 1), state=state)


@pytest.mark.slow
def test_models_start_healthy() -> None:
    """Loss within 5 % of ln V; what enters each output projection has RMS in [0.1, 10]."""
    space = space_of(12, sizes={"width": 64, "head_size": None}, **_OPTIONS)
    rng = generator(3)
    for seed in range(16):
        genome = space.sample(rng)
        model = small_backbone(space, genome, 200, seed, tied=seed % 2 == 0)
        sizes: list[tuple[str, float]] = []
        for position, block in enumerate(model.blocks):
            for one in _copies(block):
                one.mix = _measured(one.mix, sizes, CLASSES[genome[position][0]].name)
        windows = torch.randint(200, (4, 33), generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            loss = float(model.loss(text_batch(windows)))
        assert abs(loss / math.log(200) - 1) < 0.05, (space.print(genome), loss)
        assert sizes
        for name, size in sizes:
            assert 0.1 < size < 10, (name, size, space.print(genome))


def _measured(mix: Any, sizes: list[tuple[str, float]], name: str) -> Any:
    def measured(*arguments: Any) -> Any:
        result = mix(*arguments)
        sizes.append((name, float(result[0].float().square().mean().sqrt())))
        return result

    return measured


@pytest.mark.slow
def test_random_backbones_learn() -> None:
    """16 steps on a toy corpus reduce the loss of random genomes, and none diverges."""
    space = space_of(4, sizes={"width": 32, "head_size": 8}, **_OPTIONS)
    rng = generator(9)
    corpus = torch.tensor([ord(letter) % VOCABULARY for letter in "the quick brown fox jumps over the lazy dog. " * 40])
    for seed in range(3):
        model = small_backbone(space, space.sample(rng), VOCABULARY, seed)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        source = torch.Generator().manual_seed(seed)
        losses = []
        for _ in range(16):
            starts = torch.randint(len(corpus) - 17, (4,), generator=source)
            loss = model.loss(text_batch(torch.stack([corpus[start : start + 17] for start in starts.tolist()])))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
        assert all(map(math.isfinite, losses))
        assert sum(losses[-5:]) / 5 < losses[0] - 0.5


# The residual extension, by its formula (A.7)


def test_residuals_are_the_papers_formula() -> None:
    """y^n = T(norm(u)) norm(u) + u with u = y^(n-1) + y^m, m the nearest earlier LIV of equal value."""
    space = space_of(residuals=True)
    genome = space.parse("911111 111112 511113 921211 931312 941411")
    model = model_of(genome, space=space).requires_grad_(False)
    tokens = tokens_of(2, 9)
    y: list[Tensor] = []
    stream = model.embedding(tokens)
    for number, block in enumerate(model.blocks):
        u = stream
        earlier = [m for m in range(number) if genome[m][5] == genome[number][5]]
        if earlier:
            u = u + y[max(earlier)]
        normal = u / (u.square().mean(-1, keepdim=True) + 1e-6).sqrt() * block.norm.weight  # type: ignore[union-attr]
        stream = block.operator(normal).y + u  # type: ignore[operator,union-attr]
        y.append(stream)
    normal = stream / (stream.square().mean(-1, keepdim=True) + 1e-6).sqrt() * model.norm.weight
    torch.testing.assert_close(model.next_logits(tokens), normal @ model.embedding.weight.T, rtol=0, atol=1e-10)
    assert [plan.residual for plan in model.plans] == [None, None, None, 0, 1, 3]
    plain = model_of(tuple((*s[:5], p + 1) for p, s in enumerate(genome)), space=space).requires_grad_(False)
    assert float((plain.next_logits(tokens) - model.next_logits(tokens)).abs().max()) > 1e-6


# The state as a value, and the model as a module


@pytest.mark.parametrize("genome", GENOMES[:6], ids=shown)
def test_beams_choose_rows_of_the_state(genome: BackboneGenome) -> None:
    model = model_of(genome).requires_grad_(False)
    tokens, rows = tokens_of(3, 11), torch.tensor([2, 2, 0, 1])
    _, state = in_pieces(model, tokens, [11])
    chosen, untouched = state.select(rows), state.select(torch.arange(3))
    sequel = tokens_of(4, 5, seed=8)
    wanted = model.next_logits(torch.cat([tokens[rows], sequel], 1))[:, 11:]
    got, _ = in_pieces(model, sequel, [1, 4], state=chosen)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)
    # The original went on unharmed by its copy.
    again, _ = in_pieces(model, tokens_of(3, 2), [2], state=state)
    twin, _ = in_pieces(model, tokens_of(3, 2), [2], state=untouched)
    assert torch.equal(again, twin)


def test_copies_and_files_of_a_model_are_whole() -> None:
    genome = shared_pair(14, tied=True)
    model = model_of(genome)
    tokens = tokens_of(1, 8)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert float(twin.next_logits(tokens).detach().abs().max()) > 0.1  # the copy's LIVs hold the copy's bank
    model.load_state_dict(twin.state_dict(), assign=True)
    assert torch.equal(model.next_logits(tokens), twin.next_logits(tokens))


def test_after_inference_a_model_can_be_trained() -> None:
    model = small_backbone(FREE, GENOMES[1], VOCABULARY, 0)
    with torch.inference_mode():
        in_pieces(model, tokens_of(1, 9), [4, 5])
    model.loss(text_batch(tokens_of(1, 9))).backward()
    with pytest.raises(UsageError, match="batch is 0"):
        model.initial_state(0)


@pytest.mark.slow
def test_transformer_is_llama() -> None:
    """The whole network against transformers' Llama with the same weights."""
    transformers = pytest.importorskip("transformers")
    space = space_of(4, sizes={"width": 64, "head_size": 16})
    model = small_backbone(space, space.named("transformer++", 4), 50, 0, tied=False)
    model.double()
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=171,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=50,
        rms_norm_eps=1e-6,
        attn_implementation="eager",
    )
    llama = transformers.LlamaForCausalLM(config).double()
    with torch.no_grad():
        llama.model.embed_tokens.weight.copy_(model.embedding.weight)
        assert model.head is not None
        llama.lm_head.weight.copy_(model.head.weight)
        llama.model.norm.weight.copy_(model.norm.weight)
        for number, layer in enumerate(llama.model.layers):
            mixer, memoryless = model.blocks[2 * number], model.blocks[2 * number + 1]
            layer.input_layernorm.weight.copy_(mixer.norm.weight)
            layer.post_attention_layernorm.weight.copy_(memoryless.norm.weight)
            for short, role in (("q", "query"), ("k", "key"), ("v", "value")):
                getattr(layer.self_attn, f"{short}_proj").weight.copy_(model.bank[f"{2 * number}_{role}"].weight)
            layer.self_attn.o_proj.weight.copy_(mixer.operator.out)
            layer.mlp.gate_proj.weight.copy_(model.bank[f"{2 * number + 1}_gate"].weight)
            layer.mlp.up_proj.weight.copy_(model.bank[f"{2 * number + 1}_up"].weight)
            layer.mlp.down_proj.weight.copy_(memoryless.operator.out)
        tokens = torch.randint(50, (2, 33))
        # Llama computes its norms and rotations in float32, also in a model of float64.
        torch.testing.assert_close(model.next_logits(tokens), llama(tokens).logits, rtol=0, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_cuda_equals_cpu(dtype: torch.dtype) -> None:
    for genome in GENOMES[:12]:
        model = small_backbone(FREE, genome, VOCABULARY, 0).requires_grad_(False)
        tokens = tokens_of(2, 70)
        reference = model.double().next_logits(tokens)
        there = small_backbone(FREE, genome, VOCABULARY, 0).requires_grad_(False).to("cuda", dtype)
        logits = there.next_logits(tokens.cuda())
        pieces, _ = in_pieces(there, tokens.cuda(), [50, *([1] * 20)])
        tolerance = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.2}[dtype]
        for got in (logits, pieces):
            assert float((got.cpu().double() - reference).norm() / reference.norm()) < tolerance
