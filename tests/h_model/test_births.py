"""How far hidden layers are there: shares of the models with and without them."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from evodevo.h_model.births import as_if_born, levelled, stages
from evodevo.testing.networks import small_batch, small_model

LEGAL = torch.ones(3, 5, dtype=torch.bool)  # three hidden layers, two outputs


def there(births: dict[int, float], *, of_input: bool = False) -> Tensor:
    """(3, 5), how far each connection exists."""
    return sum((share * legal.double() for share, legal in stages(LEGAL, births, of_input=of_input)), torch.zeros(3, 5))


def rows_of(births: dict[int, float]) -> Tensor:
    """(3, 5), of inputs, which are always there."""
    return torch.tensor([[births.get(target, 1.0) for target in range(5)]] * 3, dtype=torch.float64)


@pytest.mark.parametrize("births", [{}, {1: 0.0}, {1: 1.0}, {0: 0.25, 2: 0.5}, {0: 0.5, 1: 0.5}, {0: 0.0, 1: 0.3}])
def test_a_connection_exists_as_far_as_the_younger_of_its_ends(births: dict[int, float]) -> None:
    shares = [share for share, _ in stages(LEGAL, births, of_input=False)]
    assert sum(shares) == pytest.approx(1)
    assert all(share > 0 for share in shares)
    found = there(births)
    for source, target in itertools.product(range(3), range(5)):
        expected = min(births.get(source, 1.0), births.get(target, 1.0))
        assert float(found[source, target]) == pytest.approx(expected)
    assert torch.allclose(there(births, of_input=True), rows_of(births))


def test_the_inflow_gate_does_not_count_the_factor_again() -> None:
    inflow = torch.tensor([[[0.4, 0.1, 0.6]]])
    assert torch.allclose(as_if_born(inflow, {1: 0.25}), torch.tensor([[[0.4, 0.4, 0.6]]]))
    assert as_if_born(inflow, {}) is inflow


def test_levelled_weights_say_nothing_of_layers_and_all_of_outputs() -> None:
    weights = torch.rand(2, 1, 3, 5)
    legal = LEGAL.clone()
    legal[0, 0] = False
    even = levelled(weights * legal, legal, 3)
    assert torch.allclose(even[..., :3].sum(-1), (weights * legal)[..., :3].sum(-1))
    assert torch.equal(even[..., 3:], weights[..., 3:])
    assert float(even[0, 0, 0, 0]) == 0
    assert torch.allclose(even[:, :, 1, 0], even[:, :, 1, 2])


def test_answers_go_evenly_from_without_to_with() -> None:
    """Not only the ends: a small step of b is a small step of the answers."""
    model, batch = small_model(), small_batch()
    found = []
    with torch.no_grad():
        for factor in torch.linspace(0, 1, 21).tolist():
            model.births = {1: factor}
            model.core.runner.reset()
            found.append(model(batch)["answer"])
            assert (model.core.runner.rows[1] > 0) == (factor > 0), "who is not born is not run"
    whole = float((found[-1] - found[0]).norm())
    steps = [float((late - early).norm()) for early, late in itertools.pairwise(found)]
    assert whole > 0
    assert max(steps) < 0.25 * whole
