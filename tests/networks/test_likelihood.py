"""Likelihoods of options and documents, against one forward pass per option and a plain loop over positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evodevo.backbone.model import Backbone
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.networks.build import build_network
from evodevo.networks.likelihood.documents import score_documents, windows
from evodevo.networks.likelihood.options import Request, encode_pair, likelihoods
from evodevo.networks.likelihood.reader import Reader
from evodevo.networks.sampling import SamplingSettings
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.classes import liv_classes
from evodevo.operators.spec import Dimensions
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.text.tokenizers import ByteTokenizer, Tokenizer, train_bpe
from evodevo.testing.networks import small_backbone
from evodevo.testing.small_networks import transformer

NAMES = tuple(row.name for row in liv_classes().values())
SIZES: dict[str, Any] = {"width": 16, "head_size": 4, "modes": 4, "band": 6, "chunk": 8, "max_length": 160}
LENGTH = 40


def model_of(name: str, vocabulary: int = 256) -> Backbone:
    """Two LIVs of a class, in float64, without gradients."""
    space = BackboneSpace(BackboneSettings(depth=2, classes=(name,), dimensions=Dimensions(**SIZES)))
    model = small_backbone(space, space.sample(np.random.default_rng(3)), vocabulary).double()
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():  # none stays at an initial value that hides it
            parameter += 0.1 * torch.randn(parameter.shape, generator=source, dtype=torch.float64)
    return model.requires_grad_(False)


def reader_of(model: Backbone, tokenizer: Tokenizer | None = None, length: int = LENGTH) -> Reader:
    return Reader.of(model, tokenizer or ByteTokenizer(), length)


def ids(*counts: int) -> list[np.ndarray]:
    rng = np.random.default_rng([1, *counts])
    return [rng.integers(1, 256, count) for count in counts]


def alone(model: Backbone, context: np.ndarray, option: np.ndarray) -> tuple[float, bool]:
    """One option with its context in one forward pass."""
    whole = torch.from_numpy(np.concatenate([context, option]))[None]
    chances = model.next_logits(whole[:, :-1])[0].log_softmax(-1)[-len(option) :]
    return float(chances[torch.arange(len(option)), whole[0, -len(option) :]].sum()), bool(
        (chances.argmax(-1) == whole[0, -len(option) :]).all()
    )


REQUESTS = [
    Request(context, tuple(options))
    for (context, *options) in (
        ids(9, 3, 1, 7),
        ids(1, 2, 2),
        ids(30, 5, 1),
        ids(9, 1, 1),
        ids(80, 4, 9),
        ids(3, 60, 2),
    )
]


@pytest.mark.parametrize("name", NAMES)
def test_a_shared_prefill_gives_the_likelihoods_of_single_passes(name: str) -> None:
    model = model_of(name)
    for cached in (True, False) if name in ("SA-1", "Rec-1") else (True,):
        found = likelihoods(reader_of(model), REQUESTS, cached=cached)
        for request, answers in zip(REQUESTS, found, strict=True):
            room = max(1, LENGTH - max(map(len, request.options)) + 1)
            for option, answer in zip(request.options, answers, strict=True):
                value, greedy = alone(model, request.context[-room:], option)
                assert answer.log_likelihood == pytest.approx(value, abs=1e-9)
                assert answer.greedy == greedy


def test_what_a_model_would_write_is_greedy() -> None:
    model = model_of("Rec-1")
    (context,) = ids(12)
    written = model.continue_text(torch.from_numpy(context)[None], 5, sampling=SamplingSettings(temperature=0))[0]
    other = written.numpy().copy()
    other[-1] = (other[-1] + 1) % 256
    (answers,) = likelihoods(reader_of(model), [Request(context, (written.numpy(), other))])
    assert [answer.greedy for answer in answers] == [True, False]


def test_a_network_of_layers_reads_too() -> None:
    text = InputSpec("text", "tokens", length=24, vocabulary=256)
    structure = transformer().network.structure.model_copy(update={"causal": True})
    network = build_network(
        StackNetwork(structure=structure), (text,), (OutputSpec("next", "tokens", 256, of="text"),), 0
    )
    reader = Reader.of(network, ByteTokenizer())
    assert not reader.forks()
    context, first, second = ids(7, 3, 5)
    (answers,) = likelihoods(reader, [Request(context, (first, second))])
    for option, answer in zip((first, second), answers, strict=True):
        whole = torch.from_numpy(np.concatenate([context, option]))[None]
        with torch.no_grad():
            chances = network({"text": whole[:, :-1]})["next"][0].log_softmax(-1)[-len(option) :]
        expected = float(chances[torch.arange(len(option)), whole[0, -len(option) :]].sum())
        assert answer.log_likelihood == pytest.approx(expected, abs=1e-4)


# Documents


@given(st.integers(0, 90), st.integers(1, 20), st.integers(0, 19))
def test_windows_predict_each_token_once_and_with_enough_before_it(count: int, length: int, less: int) -> None:
    stride = max(1, length - less)
    seen: list[int] = []
    for begin, scored, end in windows(count, length, stride):
        assert 0 <= begin <= scored < end <= begin + length
        assert begin == 0 or scored - begin >= length - stride
        seen += range(scored, end)
    assert seen == list(range(count))


def test_bits_per_byte_are_those_of_a_loop_over_windows() -> None:
    model, stride = model_of("SA-1"), 8
    reader = reader_of(model, length=20)
    documents = [b"a", b"the quick brown fox jumps over the lazy dog", "wir hören zähes".encode() * 3]
    found = score_documents(reader, documents, stride=stride)
    for document, nats in zip(documents, found.nats, strict=True):
        whole = torch.tensor([[0, *document]])
        expected = 0.0
        for begin, scored, end in windows(len(document), 20, stride):
            chances = model.next_logits(whole[:, begin:end])[0].log_softmax(-1)
            expected -= sum(float(chances[n - begin, whole[0, n + 1]]) for n in range(scored, end))
        assert nats == pytest.approx(expected, abs=1e-9)
    assert found.bytes.tolist() == [len(document) for document in documents]
    assert found.bits_per_byte == pytest.approx(found.nats.sum() / math.log(2) / sum(map(len, documents)))
    assert found.perplexity == pytest.approx(math.exp(found.nats.sum() / found.tokens.sum()))


def test_a_model_that_knows_nothing_needs_eight_bits_per_byte_of_any_text() -> None:
    model = model_of("GConv-1")
    with torch.no_grad():
        model.head.weight.zero_()
    assert score_documents(reader_of(model), [b"some text", "größer".encode()]).bits_per_byte == pytest.approx(8.0)


def test_bits_of_subwords_are_per_byte_of_the_text() -> None:
    documents = [b"the cat and the dog and the cat " * 8, b"the dog"]
    tokenizer = train_bpe(documents, 300)
    model = model_of("SA-1", tokenizer.vocabulary)
    with torch.no_grad():
        model.head.weight.zero_()
    found = score_documents(reader_of(model, tokenizer), documents)
    tokens = [len(tokenizer.encode(document.decode())) for document in documents]
    assert found.tokens.tolist() == tokens
    expected = sum(tokens) * math.log2(tokenizer.vocabulary) / sum(map(len, documents))
    assert found.bits_per_byte == pytest.approx(expected)
    assert found.lossless


def test_a_pair_is_encoded_as_one_text() -> None:
    tokenizer = train_bpe([b"the answer is a cat. " * 20], 290)
    before, after = encode_pair(tokenizer, "the answer is ", "a cat.")
    assert tokenizer.decode(before) == "the answer is"
    assert tokenizer.decode(after) == " a cat."
    assert len(encode_pair(tokenizer, "", "a cat.")[0]) == 0


@pytest.mark.parametrize("stride", [0, LENGTH + 1])
def test_an_impossible_stride_is_refused(stride: int) -> None:
    with pytest.raises(UsageError, match="stride"):
        score_documents(reader_of(model_of("SA-1")), [b"text"], stride=stride)


def test_another_tokenizer_and_a_context_of_one_token_are_refused() -> None:
    with pytest.raises(UsageError, match="37 token ids and the tokenizer 256"):
        reader_of(model_of("SA-1", 37))
    with pytest.raises(UsageError, match="at least 2"):
        reader_of(model_of("SA-1"), length=1)
