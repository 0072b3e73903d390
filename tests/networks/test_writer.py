"""Writing text: token by token as all at once, or the prefix read again; sampling against a naive version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.backbone.model import Backbone
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.networks.build import build_network
from evodevo.networks.continuation import filtered_probabilities
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.sampling import SamplingSettings
from evodevo.networks.stacks.hyper_connections import HyperConnectionsNetwork
from evodevo.networks.stacks.spec import HyperConnectionsStructure, StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.networks.writer import LayeredNetwork, Writer
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.operators.spec import Dimensions
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, NEXT, TEXT, small_backbone, small_model

MIXED: list[dict[str, Any]] = [{"kind": "lstm"}, {"kind": "convolution"}, {"kind": "transformer", "heads": 2}]
MIXED_LAYERS = {"hidden": MIXED}
INNER = {"stream": "paper", "width": 8, "hidden": [MIXED[2]] * 3, "iterations": 2, "causal": True}
CARRIED: list[dict[str, Any]] = [
    {},
    {"carried": {"m": 2}},
    {"carried": {"m": 1, "cap": 2, "source_bias": True}, "iteration_embedding": "film"},
    {"hidden": [*MIXED, {"kind": "mlp", "width": 12}], "carried": {"m": 1, "cap": 3, "iteration_router": True}},
    {"hidden": [{"kind": "liv", "operator": name, "head_size": 4} for name in ("SA-1", "Rec-1", "GConv-1")]},
    {"hidden": [MIXED[2], {"kind": "h_model", "structure": {**INNER, "stream": "carried"}}], "carried": {"m": 2}},
    {"iterations": 0},
]
STREAMING: list[dict[str, Any]] = [
    {},
    MIXED_LAYERS,
    {"router": {"pool": "prefix_mean"}},
    {"router": {"pool": "prefix_mean"}, "aggregation": "attention"},
    {"router": {"gate": "softmax_out", "head": "channel"}},
    {"inflow_gate": False, "iteration_embedding": "film"},
    {"output_division": "learned", "normaliser": "softmax"},
    {"window": 1, "output_division": "last"},
    {"disabled": [1]},
    {"iterations": 0},
    {"input_blocks": 0, "output_blocks": 2},
    *({"stream": "carried", "router": {"hidden": None}, **changes} for changes in CARRIED),
]
READING_AGAIN: list[dict[str, Any]] = [
    {"inference": {"mode": "target_topm", "m": 1}},
    {"router": {"gate": "sparsemax_in"}},
    {"halting": {"rule": "act", "threshold": 0.6}},
    {"halting": {"rule": "kl", "threshold": 0.05}},
]
GREEDY = SamplingSettings(temperature=0.0)


def causal(**changes: Any) -> LayeredNetwork:
    return small_model((TEXT,), (CLASS, NEXT), causal=True, **changes)


def stack(repeats: int = 1) -> LayeredNetwork:
    layers = (TransformerLayer(heads=2), LIVLayer(operator="Rec-1", head_size=4), LSTMLayer(), ConvolutionLayer())
    structure = StackStructure(width=8, layers=layers, repeats=repeats, causal=True, iteration_embedding=repeats > 1)
    return build_network(StackNetwork(structure=structure), (TEXT,), (NEXT,), seed=0)


def mixture(**changes: Any) -> LayeredNetwork:
    structure = MixtureStructure(width=8, hidden=12, experts=3, causal=True, **changes)
    return build_network(MixtureNetwork(structure=structure), (TEXT,), (NEXT,), seed=0)


def hyper(*, dynamic: bool) -> LayeredNetwork:
    """With weights of its connections that are not those of the plain stack."""
    layers = (TransformerLayer(heads=2), LIVLayer(operator="Rec-1", head_size=4))
    structure = HyperConnectionsStructure(width=8, layers=layers, repeats=2, causal=True, streams=3, dynamic=dynamic)
    network = build_network(HyperConnectionsNetwork(structure=structure), (TEXT,), (NEXT,), seed=0)
    with torch.no_grad():
        for number, parameter in enumerate(network.connections.parameters()):
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
    return network


OTHERS: dict[str, Callable[[], LayeredNetwork]] = {
    "stack": stack,
    "stack, three times": lambda: stack(3),
    "Switch": mixture,
    "ST-MoE in a loop": lambda: mixture(style="st_moe", tied=True, depth=3, iteration_embedding=True),
    "DynMoE": lambda: mixture(style="dyn_moe"),
    "Switch with attention": lambda: mixture(heads=2, depth=3),
    "Switch with attention, in a loop": lambda: mixture(heads=2, tied=True, depth=3, iteration_embedding=True),
    "hyper-connections": lambda: hyper(dynamic=False),
    "dynamic hyper-connections": lambda: hyper(dynamic=True),
}


def tokens(count: int = 3, length: int = 9) -> Tensor:
    return torch.randint(TEXT.vocabulary, (count, length), generator=torch.Generator().manual_seed(4))


def in_pieces(writer: Writer, text: Tensor, cuts: tuple[int, ...]) -> Tensor:
    state = writer.initial_state(len(text), text.shape[1])
    pieces = [text[:, a:b] for a, b in zip((0, *cuts), (*cuts, text.shape[1]), strict=True)]
    return torch.cat([writer.logits(writer.hidden(piece, state=state)) for piece in pieces], 1)


@pytest.mark.parametrize("changes", [*STREAMING, *READING_AGAIN, *OTHERS], ids=str)
@torch.no_grad()
def test_in_pieces_as_at_once(changes: dict[str, Any] | str) -> None:
    model = OTHERS[changes]() if isinstance(changes, str) else causal(**changes)
    writer, text = model.double().writer(), tokens()
    assert writer.streams == (changes not in READING_AGAIN)
    expected = model({"text": text})["next"]
    torch.testing.assert_close(in_pieces(writer, text, (1, 2, 4, 7, 8)), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(writer.logits(writer.hidden(text)), expected, rtol=0, atol=1e-10)
    if changes == MIXED_LAYERS:
        single = model.float().writer()
        torch.testing.assert_close(in_pieces(single, text, (4, 5)), expected.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_no_token_is_seen_before_its_time(name: str) -> None:
    model, text = OTHERS[name]().double().eval(), tokens()
    answers = model({"text": text})["next"]
    for place in (0, 4, 8):
        changed = text.clone()
        changed[:, place] = (changed[:, place] + 1) % TEXT.vocabulary
        other = model({"text": changed})["next"]
        torch.testing.assert_close(other[:, :place], answers[:, :place], rtol=0, atol=1e-12)
        assert (other[:, place] - answers[:, place]).abs().max() > 1e-6


@pytest.mark.parametrize("changes", [{}, READING_AGAIN[0]], ids=str)
def test_what_is_written_is_what_the_whole_text_predicts(changes: dict[str, Any]) -> None:
    model = causal(**changes)
    prompt = tokens(2, 4)
    written = model.continue_text(prompt, 6, sampling=GREEDY)
    whole = torch.cat([prompt, written], 1)
    with torch.no_grad():
        likely = model({"text": whole})["next"].argmax(-1)
    assert torch.equal(likely[:, 3:-1], written)


def test_beyond_its_positions_it_reads_the_last_tokens() -> None:
    model = causal()
    written = model.continue_text(tokens(2, 5), 20, sampling=GREEDY)
    whole = torch.cat([tokens(2, 5), written], 1)
    with torch.no_grad():
        for place in (12, 18, 24):
            window = whole[:, max(0, place - TEXT.length) : place]
            assert torch.equal(model({"text": window})["next"][:, -1].argmax(-1), whole[:, place])
    long = model.continue_text(whole, 1, sampling=GREEDY)
    with torch.no_grad():
        assert torch.equal(model({"text": whole[:, -TEXT.length :]})["next"][:, -1:].argmax(-1), long)


def test_a_step_runs_each_layer_once_per_iteration_of_the_model() -> None:
    model = small_model((TEXT,), (NEXT,), causal=True)
    seen = []
    for layer in model.core.layers:
        layer.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    model.continue_text(tokens(1, 5), 4)
    assert seen == [5] * 9 + [1] * 27
    model = small_model((TEXT,), (NEXT,), causal=True).double()
    model.iterations = 7
    writer = model.writer()
    with torch.no_grad():
        expected = model({"text": tokens()})["next"]
        torch.testing.assert_close(in_pieces(writer, tokens(), (3, 4)), expected, rtol=0, atol=1e-10)


def test_who_does_not_write() -> None:
    with pytest.raises(UsageError, match="predicts no tokens"):
        small_model().writer()
    other = OutputSpec("again", "tokens", 5, of="text")
    both = small_model((TEXT,), (NEXT, other), causal=True)
    with pytest.raises(UsageError, match="say which one"):
        both.writer()
    with pytest.raises(UsageError, match="'answer'; it does of next, again"):
        both.writer("answer")
    assert both.writer("again").logits(both.writer("again").hidden(tokens())).shape == (3, 9, 5)
    second = InputSpec("more", "tokens", length=4, vocabulary=5)
    with pytest.raises(UsageError, match="several inputs"):
        small_model((TEXT, second), (NEXT,), causal=True).writer()
    with pytest.raises(UsageError, match="one by one"):
        causal().continue_text(tokens(), 1, mask=torch.zeros(3, 9, dtype=torch.bool))
    with pytest.raises(UsageError, match="at least 1"):
        causal().writer().initial_state(0)


# Sampling, and the work that one token costs


VOCABULARY = 40
EVERY_KIND = "11114 51112 91111 12114 81111 17.1.1.1.1 52112"


def model_of(text: str = "11114 51112", **sizes: object) -> Backbone:
    dims = Dimensions(width=32, head_size=8, **sizes)
    space = BackboneSpace(BackboneSettings(depth=7, dimensions=dims))
    model = small_backbone(space, space.parse(text), VOCABULARY, 0)
    with torch.no_grad():
        model.head.weight.mul_(10)
    return model


def prompt_of(batch: int, length: int) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(0))


# One distribution


def naive(logits: Tensor, sampling: SamplingSettings) -> list[float]:
    """One row: sort, keep the first k, and of all tokens those before which less than p has been collected."""
    weights = torch.softmax(logits.double() / sampling.temperature, 0).tolist()
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    kept, collected = [], 0.0
    for place, token in enumerate(order):
        in_k = sampling.top_k == 0 or place < sampling.top_k
        in_p = sampling.top_p == 1.0 or collected < sampling.top_p
        if in_k and in_p:
            kept.append(token)
        collected += weights[token]
    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(weights))]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [0, 1, 5, 1000])
@pytest.mark.parametrize("top_p", [1e-6, 0.5, 0.9, 1.0])
def test_filters_are_the_naive_ones(temperature: float, top_k: int, top_p: float) -> None:
    sampling = SamplingSettings(temperature=temperature, top_k=top_k, top_p=top_p)
    logits = 3 * torch.randn(5, VOCABULARY, generator=torch.Generator().manual_seed(1))
    got = filtered_probabilities(logits, sampling)
    torch.testing.assert_close(got, torch.tensor([naive(row, sampling) for row in logits]), rtol=1e-4, atol=1e-6)


def test_without_filters_no_token_is_lost() -> None:
    """Sums of many small float32 numbers pass 1 before the end; that must drop nothing."""
    logits = torch.randn(4, 50_000, generator=torch.Generator().manual_seed(2)) * 4
    assert bool((filtered_probabilities(logits, SamplingSettings()) > 0).all())


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-30, 1e-9])
def test_cold_sampling_is_greedy(temperature: float) -> None:
    logits = torch.randn(6, VOCABULARY, generator=torch.Generator().manual_seed(3)) * 100
    got = filtered_probabilities(logits, SamplingSettings(temperature=temperature))
    assert torch.equal(got, torch.nn.functional.one_hot(logits.argmax(-1), VOCABULARY).float())


# Whole texts


def test_greedy_text_is_the_argmax_of_full_forwards() -> None:
    model, text = model_of(EVERY_KIND).double(), prompt_of(3, 5)
    written = model.continue_text(text, 12, sampling=GREEDY)
    with torch.no_grad():
        for column in written.T:
            token = model.next_logits(text)[:, -1].argmax(-1)
            assert torch.equal(column, token)
            text = torch.cat([text, token.unsqueeze(1)], 1)


def test_equal_seeds_write_equal_text() -> None:
    model = model_of()
    before = torch.random.get_rng_state()
    one, two, other = (model.continue_text(prompt_of(2, 4), 12, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)  # no draw from the global stream
    assert int(one.min()) >= 0
    assert int(one.max()) < VOCABULARY
    columns: list[Tensor] = []
    model.continue_text(prompt_of(2, 4), 12, seed=5, on_token=columns.append)
    assert torch.equal(torch.stack(columns, 1), one), "columns are handed out as they are written"


def test_sampled_tokens_follow_the_probabilities() -> None:
    model, prompt = model_of(), prompt_of(1, 6)
    with torch.no_grad():
        wanted = model.next_logits(prompt)[0, -1].softmax(-1)
    drawn = model.continue_text(prompt.expand(6_000, -1), 1, seed=1)[:, 0]
    counted = torch.bincount(drawn, minlength=VOCABULARY) / len(drawn)
    assert float((counted - wanted).abs().sum()) < 0.12


def test_padded_prompts_write_what_they_write_alone() -> None:
    model = model_of(EVERY_KIND).double()
    prompt, lengths = prompt_of(3, 9), (9, 4, 1)
    mask = torch.arange(9).unsqueeze(0) >= 9 - torch.tensor(lengths).unsqueeze(1)
    together = model.continue_text(prompt, 12, sampling=GREEDY, mask=mask)
    for row, length in enumerate(lengths):
        alone = model.continue_text(prompt[row : row + 1, 9 - length :], 12, sampling=GREEDY)
        assert torch.equal(together[row : row + 1], alone)


def test_stop_ends_rows_and_then_the_text() -> None:
    model, prompt = model_of(), prompt_of(4, 3)
    free = model.continue_text(prompt, 40, seed=2)
    stop = int(free[0, 2])
    written = model.continue_text(prompt, 40, seed=2, stop=stop)
    for row, whole in zip(written.tolist(), free.tolist(), strict=True):
        if stop in row:
            end = row.index(stop)
            assert set(row[end:]) == {stop}
            assert whole[:end] == row[:end]
    first = int(model.continue_text(prompt[:1], 1, sampling=GREEDY)[0, 0])
    alone = model.continue_text(prompt[:1], 40, sampling=GREEDY, stop=first)
    assert alone.shape == (1, 1)


def test_each_liv_sees_each_token_once() -> None:
    """After prefill exactly one new token per step and LIV; the last token is written, not read."""
    model = model_of(EVERY_KIND)
    seen: list[list[int]] = [[] for _ in model.blocks]
    for number, block in enumerate(model.blocks):
        block.operator.register_forward_hook(
            lambda _, inputs, __, number=number: seen[number].append(inputs[0].shape[1])
        )
    model.continue_text(prompt_of(2, 11), 6)
    assert seen == [[11, 1, 1, 1, 1, 1]] * len(model.blocks)


def test_a_bounded_model_writes_up_to_its_end() -> None:
    model = model_of("81111", long_filter="mlp", max_length=12)
    assert model.continue_text(prompt_of(1, 5), 8).shape == (1, 8)  # the eighth token is the thirteenth: never read
    with pytest.raises(UsageError, match="12"):
        model.continue_text(prompt_of(1, 5), 9)


def test_state_has_room_from_the_start() -> None:
    """No cache is moved while writing: slabs keep their memory."""
    model = model_of(EVERY_KIND)
    state = model.initial_state(1, 40)

    def places() -> list[int]:
        return [slab.buffer.data_ptr() for liv in state.livs for slab in liv.values() if hasattr(slab, "buffer")]

    before = places()
    assert before
    with torch.no_grad():
        for _ in range(40):
            model.next_logits(prompt_of(1, 1), state=state)
    assert places() == before


@pytest.mark.parametrize(
    ("prompt", "count"),
    [(torch.zeros(1, 0, dtype=torch.long), 3), (torch.zeros(3, dtype=torch.long), 3), (prompt_of(1, 2), -1)],
)
def test_impossible_requests_are_refused(prompt: Tensor, count: int) -> None:
    with pytest.raises(UsageError):
        model_of().continue_text(prompt, count)
    assert model_of().continue_text(prompt_of(2, 2), 0).shape == (2, 0)
