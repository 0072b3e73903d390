"""Token by token equals all at once; where that is impossible, the prefix is read again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.networks.build import build_network
from evodevo.networks.sampling import SamplingSettings
from evodevo.networks.stacks.spec import StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.networks.writer import LayeredNetwork, Writer
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, NEXT, TEXT, small_model

MIXED: list[dict[str, Any]] = [{"kind": "lstm"}, {"kind": "convolution"}, {"kind": "transformer", "heads": 2}]
MIXED_LAYERS = {"hidden": MIXED}
STREAMING: list[dict[str, Any]] = [
    {},
    MIXED_LAYERS,
    {"router": {"pool": "prefix_mean"}},
    {"router": {"pool": "prefix_mean"}, "aggregation": "attention"},
    {"router": {"gate": "softmax_out", "head": "channel"}},
    {"inflow_gate": False, "iteration_embedding": "film"},
    {"output_division": "learned", "normaliser": "sinkhorn"},
    {"window": 1, "output_division": "last"},
    {"disabled": [1]},
    {"iterations": 0},
    {"input_blocks": 0, "output_blocks": 2},
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


def tokens(count: int = 3, length: int = 9) -> Tensor:
    return torch.randint(TEXT.vocabulary, (count, length), generator=torch.Generator().manual_seed(4))


def in_pieces(writer: Writer, text: Tensor, cuts: tuple[int, ...]) -> Tensor:
    state = writer.initial_state(len(text), text.shape[1])
    pieces = [text[:, a:b] for a, b in zip((0, *cuts), (*cuts, text.shape[1]), strict=True)]
    return torch.cat([writer.logits(writer.hidden(piece, state=state)) for piece in pieces], 1)


@pytest.mark.parametrize("changes", [*STREAMING, *READING_AGAIN, {"stack": 1}, {"stack": 3}], ids=str)
@torch.no_grad()
def test_in_pieces_as_at_once(changes: dict[str, Any]) -> None:
    model = stack(changes["stack"]) if "stack" in changes else causal(**changes)
    writer, text = model.double().writer(), tokens()
    assert writer.streams == (changes not in READING_AGAIN)
    expected = model({"text": text})["next"]
    torch.testing.assert_close(in_pieces(writer, text, (1, 2, 4, 7, 8)), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(writer.logits(writer.hidden(text)), expected, rtol=0, atol=1e-10)
    if changes == MIXED_LAYERS:
        single = model.float().writer()
        torch.testing.assert_close(in_pieces(single, text, (4, 5)), expected.float(), rtol=0, atol=1e-5)


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
