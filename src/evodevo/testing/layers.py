"""The laws of every layer of a network, as tests to inherit; a row of a package is tested as ours are.

    class TestMine(LayerTests):
        @pytest.fixture(params=table_cases(width=16, kinds=["mine"]), ids=str)
        def case(self, request: pytest.FixtureRequest) -> LayerCase:
            return request.param

Legend: B batch, S positions, d width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from evodevo.operators.base import Operator, select_rows, used_bytes
from evodevo.operators.layers.base import LAYERS, Layer, LayerSpec
from evodevo.operators.layers.build import build_layer
from evodevo.operators.layers.cost import layer_context_work, layer_parameters, layer_state_bytes, layer_work
from evodevo.randomness import generator
from evodevo.testing.operators import assert_states_close, run_in_pieces

POSITIONS = 14
TOLERANCE = 1e-9
FAMILIES = ("attention", "recurrence", "convolution", "memoryless", "other")


class MapCase(ABC):
    """A map of sequences of d channels under test."""

    width: int

    @abstractmethod
    def build(self, seed: int = 0) -> Operator:
        """The map in float64 and evaluation mode, with weights that depend on the seed alone."""

    def inputs(self, positions: int = POSITIONS, *, batch: int = 3, seed: int = 1) -> Tensor:
        """(B, S, d) of unit size."""
        source = torch.Generator().manual_seed(seed)
        return torch.randn(batch, positions, self.width, generator=source, dtype=torch.float64)


@dataclass(frozen=True)
class LayerCase(MapCase):
    """One layer under test.

    Attributes:
        spec: its description.
        width: d.
        causal: whether the model is causal.
        residual: argument of ``build_layer``.
        counted: whether its cost is stated without files that are absent here.
        frozen: whether none of its parameters but those of adapters is trained.
        leak: largest change by a later position; above 0 only where a Fourier transform rounds.
    """

    spec: LayerSpec
    width: int
    causal: bool
    residual: bool = True
    counted: bool = True
    frozen: bool = False
    leak: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.spec.label}{f'-{self.spec.width}' if self.spec.width else ''}-{'causal' if self.causal else 'both'}"
        )

    def build(self, seed: int = 0) -> Operator:
        """The layer in float64 and evaluation mode, with weights that depend on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = build_layer(self.spec, self.width, causal=self.causal, residual=self.residual)
        return layer.to(torch.float64).eval()


@dataclass(frozen=True)
class Sizes:
    """See ``LayerSizes``: small ones."""

    heads: int = 2
    feedforward: int | None = None
    kernel: int = 3
    head_size: int | None = 4
    band: int = 64


def table_cases(width: int, kinds: Iterable[str] = LAYERS, *, both: bool = True) -> list[LayerCase]:
    """Every kind of the table whose sizes follow from those of a space, in a model that is not causal and in one.

    Layers of another width, between adapters, come once each: causal if there are causal models.

    Args:
        width: d; at least 4 and even.
        kinds: rows to take; all if left out, those that need settings of their own are passed over.
        both: false leaves causal models out.
    """
    specs = [spec for kind in kinds if (spec := LAYERS.get(kind).sized(Sizes())) is not None]
    ways = (False, True) if both else (False,)
    cases = [LayerCase(spec, width, causal, leak=1e-11) for spec in specs for causal in ways]
    adapted = [spec.model_copy(update={"width": width + 8}) for spec in specs]
    return [*cases, *(LayerCase(spec, width, ways[-1], leak=1e-11) for spec in adapted)]


class MapTests:
    """Laws of every map of sequences that reads a mask; inherit, and give the fixture ``case``.

    Attributes:
        garbage: size of what masked positions hold.
    """

    garbage = 3.0

    def test_shape_and_type_stay(self, case: MapCase) -> None:
        layer = case.build()
        with torch.no_grad():
            for positions in (1, 2, POSITIONS):
                x = case.inputs(positions)
                output = layer(x)
                assert output.y.shape == x.shape
                assert output.y.dtype == x.dtype
                assert output.state is None

    def test_half_precision_in_autocast_is_near(self, case: MapCase) -> None:
        layer = case.build().to(torch.float32)
        mask = holes(case.inputs())
        for x in (case.inputs().float(), case.inputs().bfloat16()):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                y = layer(x, mask=mask).y[mask].float()
            wanted = layer(x.float(), mask=mask).y[mask].detach()
            assert float((y - wanted).norm() / wanted.norm()) < 0.1

    def test_a_sample_without_real_positions_is_finite(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs().requires_grad_()
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        mask[1] = False
        y = layer(x, mask=mask).y
        assert bool(y.isfinite().all())
        wanted = [x, *(p for p in layer.parameters() if p.requires_grad)]
        for gradient in torch.autograd.grad(y.square().sum(), wanted, allow_unused=True):
            assert gradient is None or bool(gradient.isfinite().all())

    def test_samples_do_not_meet(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs()
        mask = holes(x)
        with torch.no_grad():
            for masks in (None, mask):
                together = layer(x, mask=masks).y
                for row in range(len(x)):
                    alone = layer(x[row : row + 1], mask=None if masks is None else masks[row : row + 1]).y
                    real = slice(None) if masks is None else masks[row]
                    torch.testing.assert_close(together[row][real], alone[0][real], rtol=0, atol=TOLERANCE)

    def test_masked_positions_have_no_influence(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs()
        mask = holes(x)
        other = torch.where(mask.unsqueeze(-1), x, self.garbage * case.inputs(seed=2))
        with torch.no_grad():
            torch.testing.assert_close(
                layer(x, mask=mask).y[mask], layer(other, mask=mask).y[mask], rtol=0, atol=TOLERANCE
            )

    def test_no_gradient_reaches_masked_positions(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs().requires_grad_()
        mask = holes(x)
        (gradient,) = torch.autograd.grad(layer(x, mask=mask).y[mask].square().sum(), x)
        assert float(gradient[~mask].abs().max()) <= TOLERANCE
        assert float(gradient[mask].abs().max()) > 0

    def test_some_positions_alone_are_those_of_the_whole_call(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs().requires_grad_()
        learned = [x, *(p for p in layer.parameters() if p.requires_grad)]
        drawn = torch.rand(x.shape[:2], generator=torch.Generator().manual_seed(5))
        for mask in (None, holes(x)):
            real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
            for share in (0.4, 1.1):
                wanted = real & (drawn < share)
                wanted[1] = False  # nobody wants anything of this sample
                some, every = layer.at(x, wanted, mask=mask), layer(x, mask=mask).y[wanted]
                assert len(some) == int(wanted.sum()) > 0
                torch.testing.assert_close(some, every, rtol=0, atol=TOLERANCE)
                expected = torch.autograd.grad(every.square().sum(), learned, allow_unused=True, materialize_grads=True)
                found = torch.autograd.grad(some.square().sum(), learned, allow_unused=True, materialize_grads=True)
                for one, other in zip(found, expected, strict=True):
                    torch.testing.assert_close(one, other, rtol=0, atol=1e3 * TOLERANCE)
        with torch.no_grad():
            assert layer.at(x, torch.zeros_like(real)).shape == (0, x.shape[2])

    def test_without_memory_a_position_is_alone(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs()
        if not layer.memoryless:
            pytest.skip("looks at other positions")
        with torch.no_grad():
            alone = torch.cat([layer(x[:, s : s + 1]).y for s in range(POSITIONS)], 1)
            torch.testing.assert_close(layer(x).y, alone, rtol=0, atol=TOLERANCE)

    def test_padding_changes_nothing(self, case: MapCase) -> None:
        layer, x = case.build(), case.inputs()
        short = POSITIONS - 5
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        mask[:, short:] = False
        with torch.no_grad():
            alone = layer(x[:, :short]).y
            torch.testing.assert_close(layer(x, mask=mask).y[:, :short], alone, rtol=0, atol=TOLERANCE)
            torch.testing.assert_close(layer(x[:, :short], mask=mask[:, :short]).y, alone, rtol=0, atol=TOLERANCE)


class LayerTests(MapTests):
    """Inherit, and give the fixture ``case``."""

    @pytest.fixture
    def case(self) -> LayerCase:
        """The layer under test; a subclass overrides it, with ``params`` for a table of them."""
        raise NotImplementedError

    # Plain data

    def test_it_is_a_row_of_the_table(self, case: LayerCase) -> None:
        assert type(case.spec) is LAYERS.get(case.spec.kind)

    def test_its_json_gives_it_back(self, case: LayerCase) -> None:
        field: TypeAdapter[LayerSpec] = TypeAdapter(Layer)
        written = field.dump_json(case.spec)
        again = field.validate_json(written)
        assert type(again) is type(case.spec)
        assert again == case.spec
        assert field.dump_json(again) == written

    def test_a_drawing_can_show_it(self, case: LayerCase) -> None:
        inner = case.spec.width or case.width
        assert case.spec.label
        assert case.spec.type_name
        assert case.spec.family(inner) in FAMILIES
        assert len(case.spec.sizes(inner)) <= 120

    def test_mutants_fit_where_it_fits(self, case: LayerCase) -> None:
        if not case.counted:
            pytest.skip("states no cost")
        inner = case.spec.width or case.width
        assert case.spec.mutated(inner, generator(0), 0.0) == case.spec
        for seed in range(4):
            mutant = case.spec.mutated(inner, generator(seed), 1.0)
            assert (mutant.width, mutant.router) == (case.spec.width, case.spec.router)
            layer_parameters(mutant, case.width, case.causal)

    # Numbers

    def test_every_trainable_parameter_has_an_influence(self, case: LayerCase) -> None:
        layer = case.build()
        trained = {name: p for name, p in layer.named_parameters() if p.requires_grad}
        if case.frozen:
            assert all(name.startswith(("enter.", "leave.")) for name in trained)
        if not trained:
            return
        source = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in trained.values():  # a map that starts at zero lets no gradient through
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=source, dtype=parameter.dtype))
        loss = layer(case.inputs()).y.square().sum()
        for name, gradient in zip(
            trained, torch.autograd.grad(loss, list(trained.values()), allow_unused=True), strict=True
        ):
            assert gradient is not None, name
            assert bool(gradient.isfinite().all()), name
            if not name.endswith(("key.bias", "k_lin.bias", "k_proj.bias")):  # softmax is blind to these
                assert float(gradient.abs().max()) > 0, name

    def test_the_same_seed_gives_the_same_parameters(self, case: LayerCase) -> None:
        first, again, other = (dict(case.build(seed).named_parameters()) for seed in (0, 0, 1))
        assert first.keys() == again.keys() == other.keys()
        assert all(torch.equal(first[name], again[name]) for name in first)
        if case.spec.donor is None or case.spec.width is not None:  # else nothing is drawn
            assert any(not torch.equal(first[name], other[name]) for name in first)

    def test_stated_parameters_are_counted(self, case: LayerCase) -> None:
        if not case.counted:
            pytest.skip("states no cost")
        counted = sum(parameter.numel() for parameter in case.build().parameters())
        assert counted == layer_parameters(case.spec, case.width, case.causal)

    def test_stated_work_grows_with_the_positions(self, case: LayerCase) -> None:
        if not case.counted:
            pytest.skip("states no cost")
        short, long = (layer_work(case.spec, case.width, length, causal=case.causal).total for length in (4, 16))
        assert 0 <= short <= long

    def test_positions_that_want_no_output_cost_no_more_than_the_others(self, case: LayerCase) -> None:
        if not case.counted:
            pytest.skip("states no cost")
        whole = layer_work(case.spec, case.width, POSITIONS, causal=case.causal)
        context = layer_context_work(case.spec, case.width, POSITIONS, causal=case.causal)
        assert 0 <= context.total <= whole.total
        if case.build().memoryless:
            assert context.total == 0
        if context == whole:  # a layer that states less computes less: ``Operator.at``
            return
        layer, x = case.build(), case.inputs()
        wanted = torch.zeros(x.shape[:2], dtype=torch.bool)
        wanted[:, 0] = True
        calls: list[int] = []
        hooks = [
            one.register_forward_hook(lambda module, given, made: calls.append(made.shape[:-1].numel()))
            for one in layer.modules()
            if isinstance(one, nn.Linear)
        ]
        with torch.no_grad():
            layer.at(x, wanted)
        for hook in hooks:
            hook.remove()
        assert not calls or min(calls) <= len(x)

    # Order of time

    def test_later_positions_say_nothing_to_earlier_ones(self, case: LayerCase) -> None:
        layer = case.build()
        if not case.causal:
            pytest.skip("is not in a causal model")
        assert layer.causal
        x = case.inputs()
        with torch.no_grad():
            for mask in (None, holes(x)):
                y = layer(x, mask=mask).y
                for t in (1, 6, POSITIONS - 1):
                    other, others = x.clone(), mask
                    other[:, t:] = case.inputs(seed=2)[:, t:]
                    if mask is not None:
                        others = mask.clone()
                        others[:, t:] = ~mask[:, t:]
                    moved = (layer(other, mask=others).y - y)[:, :t]
                    seen = moved if mask is None else moved[mask[:, :t]]
                    assert float(seen.abs().max()) <= case.leak

    # One sequence, any pieces

    def test_any_split_equals_one_call(self, case: LayerCase) -> None:
        layer = _streamable(case)
        x = case.inputs()
        mask = torch.arange(POSITIONS) >= torch.tensor([0, 4, POSITIONS - 1]).unsqueeze(1)
        with torch.no_grad():
            for masks in (None, mask):
                whole = layer(x, mask=masks).y
                _, reference = run_in_pieces(layer, x, [POSITIONS], masks)
                for pieces in _splits():
                    y, state = run_in_pieces(layer, x, pieces, masks)
                    real = torch.ones_like(mask) if masks is None else masks
                    torch.testing.assert_close(y[real], whole[real], rtol=0, atol=TOLERANCE, msg=str(pieces))
                    if masks is None:  # what a state holds for padding means nothing
                        assert_states_close(state, reference)

    def test_any_split_with_holes_equals_one_call(self, case: LayerCase) -> None:
        layer = _streamable(case)
        x = case.inputs()
        mask = holes(x)
        with torch.no_grad():
            whole = layer(x, mask=mask).y
            for pieces in _splits():
                y, _ = run_in_pieces(layer, x, pieces, mask)
                torch.testing.assert_close(y[mask], whole[mask], rtol=0, atol=TOLERANCE, msg=str(pieces))

    def test_calls_without_a_real_token_may_be_left_out(self, case: LayerCase) -> None:
        layer = _streamable(case)
        if not layer.skips_padding:
            pytest.skip("counts every token")
        x = case.inputs(batch=1)
        mask = holes(x)
        with torch.no_grad():
            whole = layer(x, mask=mask).y
            kept = mask[0].nonzero().squeeze(1).tolist()
            assert 0 < len(kept) < POSITIONS
            for told in (True, False):  # the mask of a call in which all is real may be left out
                state = layer.initial_state(1, 0, x.dtype, x.device)
                for s in kept:
                    output = layer(x[:, s : s + 1], mask=mask[:, s : s + 1] if told else None, state=state)
                    torch.testing.assert_close(output.y[:, 0], whole[:, s], rtol=0, atol=TOLERANCE)
                    state = output.state

    def test_states_of_samples_can_be_chosen(self, case: LayerCase) -> None:
        layer = _streamable(case)
        x, rows = case.inputs(), torch.tensor([2, 0, 0])
        with torch.no_grad():
            whole = layer(x[rows]).y
            _, state = run_in_pieces(layer, x[:, :9], [9])
            rest, _ = run_in_pieces(layer, x[rows, 9:], [1, POSITIONS - 10], state=select_rows(state, rows))
        torch.testing.assert_close(rest, whole[:, 9:], rtol=0, atol=TOLERANCE)

    def test_stated_state_bytes_are_used(self, case: LayerCase) -> None:
        if not case.counted:
            pytest.skip("states no cost")
        layer = _streamable(case).to(torch.float32)
        for length in (1, POSITIONS):
            with torch.no_grad():
                _, state = run_in_pieces(layer, case.inputs(length, batch=2).float(), [length])
            assert used_bytes(state) == 2 * layer_state_bytes(case.spec, case.width, length)


def holes(x: Tensor) -> Tensor:
    """(B, S) with about a third masked, anywhere, and something real in every sample."""
    mask = torch.rand(x.shape[:2], generator=torch.Generator().manual_seed(7)) > 0.35
    mask[:, 2] = True
    mask[0, 0] = False
    return mask


def _splits() -> list[list[int]]:
    """Some fixed pieces and some drawn ones."""
    source = torch.Generator().manual_seed(11)
    pieces = [[1] * POSITIONS, [0, 3, 0, POSITIONS - 3]]
    for _ in range(2):
        cuts = torch.randperm(POSITIONS - 1, generator=source)[:3].add(1).sort().values.tolist()
        pieces.append([b - a for a, b in zip([0, *cuts], [*cuts, POSITIONS], strict=True)])
    return pieces


def _streamable(case: LayerCase) -> Operator:
    layer = case.build()
    assert layer.streamable or not case.causal or case.spec.nesting, "a causal layer streams"
    if not layer.streamable:
        pytest.skip("is not streamable")
    return layer
