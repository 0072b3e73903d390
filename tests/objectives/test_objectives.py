"""Objectives say what the space says; measured ones measure what their names promise."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import UsageError
from evodevo.objectives.base import OBJECTIVES, Subject, number, parse_objective, parse_objectives
from evodevo.objectives.latency import DECODED, REPETITIONS
from evodevo.operators.spec import Dimensions
from evodevo.training.held_out import HeldOut

SPACE = BackboneSpace(BackboneSettings(depth=6, dimensions=Dimensions(width=64)))


def subject(genome: Any, **other: Any) -> Subject:
    values: dict[str, Any] = {"space": SPACE, "genome": genome, "length": 100, "vocabulary": 256}
    return Subject(**{**values, **other})


def value(name: str, of: Subject) -> float:
    return OBJECTIVES.get(name).measure(of).value


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    length=st.integers(1, 3000),
    vocabulary=st.sampled_from([256, 5000]),
    convention=st.sampled_from(["star", "actual"]),
)
def test_what_needs_the_genome_alone_is_the_cost_of_the_space(
    seed: int, length: int, vocabulary: int, convention: Literal["star", "actual"]
) -> None:
    genome = SPACE.sample(np.random.default_rng(seed))
    one = subject(genome, length=length, vocabulary=vocabulary, convention=convention)
    cost = SPACE.cost(genome, length=length, convention=convention, vocabulary=vocabulary)
    assert value("parameters", one) == cost.parameters
    assert value("cache", one) == cost.cache_bytes
    assert value("flops", one) * length == pytest.approx(cost.flops, rel=1e-12)


def test_no_objective_grows_out_of_the_head_but_flops() -> None:
    genome = SPACE.named("transformer++")
    small, large = subject(genome), subject(genome, vocabulary=50_000)
    assert [value(name, small) == value(name, large) for name in ("parameters", "cache")] == [True, True]
    assert value("flops", small) < value("flops", large)


MAXIMISED = ("accuracy", "auc", "f1", "induction", "mqar", "noisy_recall", "selective_copying")


def test_each_row_of_the_table_is_what_it_is_called() -> None:
    for name in OBJECTIVES.names():
        row = OBJECTIVES.get(name)
        assert row.name == name
        assert row.unit
        assert row.summary
        assert row.direction == ("maximise" if name in MAXIMISED else "minimise")
        assert row.timed == name.endswith("latency")


def test_quality_is_what_was_measured() -> None:
    measured = HeldOut("ok", 2.0, math.exp(2.0), 1.5, 1000)
    assert value("quality", subject((), held_out=measured)) == 1.5
    assert value("perplexity", subject((), held_out=measured)) == math.exp(2.0)
    lost = HeldOut("nan", None, None, None, 1000)
    assert math.isnan(value("quality", subject((), held_out=lost)))
    assert math.isnan(value("perplexity", subject((), held_out=lost)))
    assert math.isnan(number(None).value)


# Names and directions


def test_the_direction_may_be_turned() -> None:
    turned, plain = parse_objective("cache:maximise"), parse_objective("cache")
    assert (turned.name, turned.direction) == ("cache", "maximise")
    assert plain.direction == "minimise", "the table's row is as it was"
    for one in (plain, turned):
        assert one.to_minimise(one.to_minimise(5.0)) == 5.0
    assert turned.to_minimise(5.0) == -5.0


def test_what_is_no_objective_is_refused() -> None:
    for texts, words in (
        (("qualty",), "Did you mean 'quality'"),
        (("",), "unknown objective ''"),
        (("quality:up",), "must be minimise or maximise"),
        (("quality:",), "must be minimise or maximise"),
        (("quality:minimise:maximise",), "must be minimise or maximise"),
        ((), "at least one objective"),
        (("cache", "quality", "cache:maximise"), "occurs twice"),
    ):
        with pytest.raises(UsageError, match=words):
            parse_objectives(texts)


@given(st.text(max_size=40))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(UsageError):
        assert parse_objective(text).name in OBJECTIVES


# Latency


class Recorder(nn.Module):
    """Notes how many tokens it is shown, and how many its state has seen before."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.calls: list[tuple[int, int]] = []

    def initial_state(self, batch: int, length: int) -> SimpleNamespace:
        return SimpleNamespace(seen=0, capacity=length)

    def next_logits(self, tokens: torch.Tensor, *, state: SimpleNamespace) -> None:
        assert torch.is_inference_mode_enabled()
        self.calls.append((tokens.shape[1], state.seen))
        state.seen += tokens.shape[1]
        assert state.seen <= state.capacity


def test_prefill_reads_a_whole_context_from_nothing() -> None:
    model = Recorder()
    OBJECTIVES.get("prefill_latency").measure(subject((), model=model, length=50))
    assert model.calls == [(50, 0)] * (REPETITIONS + 1), "the first does not count"


def test_decoding_shows_one_new_token_after_a_full_context() -> None:
    model = Recorder()
    OBJECTIVES.get("decode_latency").measure(subject((), model=model, length=50))
    assert model.calls[0] == (50, 0)
    steps = model.calls[1:]
    assert steps == [(1, 50 + number) for number in range(DECODED * (REPETITIONS + 1))]


def test_latency_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:

    ticks = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * 0.5)
    model = Recorder()
    prefill = OBJECTIVES.get("prefill_latency").measure(subject((), model=model))
    assert (prefill.value, prefill.spread) == (500.0, 0.0)
    decode = OBJECTIVES.get("decode_latency").measure(subject((), model=model))
    assert (decode.value, decode.spread) == (500.0 / DECODED, 0.0)
