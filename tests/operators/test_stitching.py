"""Adapters from least squares: against scikit-learn, and where the answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.stitching import donor_states, fit, fit_adapters, message_space, ridge_regression

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

WORDS, LENGTH, LAYERS = 50, 12, 3


@pytest.fixture(scope="module")
def donors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Random text models of widths 16 and 24, as trained ones have directions that say more than others."""
    transformers.utils.logging.disable_progress_bar()
    found = {}
    for family, width in (("Bert", 16), ("Roberta", 24), ("DistilBert", 16)):
        torch.manual_seed(0)
        sizes: dict[str, Any] = {"hidden_size": width, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
        if family == "DistilBert":
            sizes = {"dim": width, "n_layers": LAYERS, "n_heads": 2, "hidden_dim": 2 * width}
        config = getattr(transformers, f"{family}Config")(
            vocab_size=WORDS, max_position_embeddings=LENGTH + 2, pad_token_id=1, **sizes
        )
        found[family] = str(tmp_path_factory.mktemp(family))
        getattr(transformers, f"{family}Model")(config).save_pretrained(found[family])
    transformers.utils.logging.enable_progress_bar()
    return found


def sample(rows: int = 20) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, WORDS, (rows, LENGTH), generator=source)
    lengths = torch.randint(1, LENGTH + 1, (rows, 1), generator=source)
    return tokens, torch.arange(LENGTH) < lengths


def layers_of(path: str, width: int, inner: int) -> tuple[list[nn.Module], list[Layer]]:
    specs: list[Layer] = [PretrainedLayer(path=path, index=index, width=inner) for index in range(LAYERS)]
    return [build_layer(spec, width, causal=False).eval() for spec in specs], specs


def test_ridge_is_that_of_scikit_learn() -> None:
    source = torch.Generator().manual_seed(0)
    x, y = (torch.randn(50, size, generator=source, dtype=torch.float64) for size in (7, 4))
    weight, bias = ridge_regression(x, y, 0.1)
    centred = x - x.mean(0)
    reference = Ridge(alpha=float(0.1 * (centred.T @ centred).diagonal().mean())).fit(x.numpy(), y.numpy())
    torch.testing.assert_close(weight, torch.from_numpy(reference.coef_))
    torch.testing.assert_close(bias, torch.from_numpy(reference.intercept_))


def test_a_linear_relation_is_found_and_a_constant_is_no_accident() -> None:
    source = torch.Generator().manual_seed(0)
    x, true = torch.randn(80, 6, generator=source), nn.Linear(6, 9)
    adapter = nn.Linear(6, 9)
    assert fit(adapter, x, true(x).detach(), ridge=1e-9) == pytest.approx(1.0, abs=1e-6)
    torch.testing.assert_close(adapter(x), true(x), rtol=1e-4, atol=1e-4)
    fit(adapter, torch.ones(5, 6), torch.full((5, 9), 2.0))
    torch.testing.assert_close(adapter(torch.ones(1, 6)), torch.full((1, 9), 2.0))


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_states_are_those_of_transformers(family: str, donors: dict[str, str]) -> None:
    tokens, mask = sample()
    states = donor_states(donors[family], tokens, mask, count=10**6)
    model = getattr(transformers, f"{family}Model").from_pretrained(donors[family]).eval()
    with torch.no_grad():
        theirs = model(tokens, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    assert len(states) == LAYERS + 1
    for mine, other in zip(states, theirs, strict=True):
        torch.testing.assert_close(mine, other[mask], rtol=1e-4, atol=1e-5)
    few = donor_states(donors[family], tokens, mask, count=30)
    for mine, other in zip(few, states, strict=True):
        torch.testing.assert_close(mine, other[:30], rtol=1e-4, atol=1e-5)


def test_messages_keep_all_there_is_room_for() -> None:
    states = [torch.randn(60, 8, generator=torch.Generator().manual_seed(i), dtype=torch.float64) for i in range(3)]
    assert all(map(torch.equal, message_space(states, 8), states))
    wide = message_space(states, 11)
    centred = [state - torch.cat(states).mean(0) for state in states]
    for message, state in zip(wide, centred, strict=True):
        assert message.shape == (60, 11)
        torch.testing.assert_close(message @ message.T, state @ state.T)  # a rotation
    narrow = torch.cat(message_space(states, 3)).square().sum()
    best = torch.linalg.svdvals(torch.cat(centred))[:3].square().sum()
    torch.testing.assert_close(narrow, best)


def test_layers_of_the_reference_in_its_own_width_are_left_as_they_are(donors: dict[str, str]) -> None:
    tokens, mask = sample(60)
    layers, specs = layers_of(donors["Bert"], 16, 16)
    fits = fit_adapters(layers, specs, tokens, mask, ridge=1e-9)
    assert [one.layer for one in fits] == [0, 1, 2]
    assert all(min(one.enter, one.leave) > 0.999 for one in fits)
    x = donor_states(donors["Bert"], tokens[:1], torch.ones(1, LENGTH, dtype=torch.bool))
    with torch.no_grad():
        y = x[0][None]
        for layer in layers:
            y = layer(y).y
    torch.testing.assert_close(y[0], x[-1], rtol=1e-2, atol=1e-2)


def test_two_donors_understand_each_other_better_than_by_chance(donors: dict[str, str]) -> None:
    """A layer of one donor, given messages of the reference, says nearly what it says inside its own model."""
    tokens, mask = sample(100)
    layers, specs = layers_of(donors["Roberta"], 16, 24)
    own = donor_states(donors["Roberta"], tokens[:1], mask[:1])
    reference = donor_states(donors["Bert"], tokens[:1], mask[:1])

    def error() -> float:
        with torch.no_grad():
            heard = layers[1].enter(reference[1])  # type: ignore[operator]
        return float((heard - own[1]).square().mean())

    before = error()
    fits = fit_adapters([MLP, *layers], [MLPLayer(), *specs], tokens, mask, reference=donors["Bert"])
    assert [one.layer for one in fits] == [1, 2, 3]
    assert all(0.3 < one.enter <= 1 and 0.3 < one.leave <= 1 for one in fits)
    assert error() < 0.7 * before


MLP = build_layer(MLPLayer(), 16, causal=False)


def test_layers_without_adapters_need_no_fit() -> None:
    assert fit_adapters([MLP], [MLPLayer()], torch.zeros(1, 1, dtype=torch.long)) == ()


def test_what_cannot_be_fitted_is_refused(donors: dict[str, str], tmp_path: Path) -> None:
    path = donors["Roberta"]
    with pytest.raises(UsageError, match="share a tokenizer"):
        donor_states(path, torch.full((1, 3), WORDS))
    with pytest.raises(UsageError, match=f"reads {LENGTH} positions"):
        donor_states(path, torch.zeros(1, LENGTH + 1, dtype=torch.long))
    with pytest.raises(UsageError, match="no token"):
        donor_states(path, torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 3, dtype=torch.bool))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    transformers.utils.logging.disable_progress_bar()
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **sizes)).save_pretrained(tmp_path)
    transformers.utils.logging.enable_progress_bar()
    with pytest.raises(UsageError, match="reads images"):
        donor_states(str(tmp_path), torch.zeros(1, 3, dtype=torch.long))
