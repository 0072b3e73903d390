"""Writing text: sampling against a naive version, and the work that one token costs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from evodevo.backbone.model import Backbone
from evodevo.backbone.space import BackboneSettings, BackboneSpace
from evodevo.errors import UsageError
from evodevo.networks.continuation import filtered_probabilities
from evodevo.networks.sampling import SamplingSettings
from evodevo.operators.spec import Dimensions
from evodevo.testing.networks import small_backbone

VOCABULARY = 40
GREEDY = SamplingSettings(temperature=0.0)
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
