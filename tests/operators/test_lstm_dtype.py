"""The dtype in which LSTMs are computed: the requested one where the processor has it, else float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

import evodevo
from evodevo.module_zoo.modules.nodes.lstm import LSTMNode
from evodevo.operators import lstm as lstms
from evodevo.operators.lstm import LSTM, has_lstm, run_lstm

WIDTH = 16
CPU = torch.device("cpu")
USERS: dict[str, Callable[[], nn.Module]] = {
    "causal": lambda: LSTM(WIDTH, causal=True),
    "both_ways": lambda: LSTM(WIDTH, causal=False),
    "zoo_node": lambda: LSTMNode(id="a", hidden=WIDTH, layers=2, both_ways=True).build(WIDTH),
}
MASKS = {
    "no_mask": None,
    "all_real": torch.ones(3, 7, dtype=torch.bool),
    "padded": torch.arange(7) < torch.tensor([[7], [4], [1]]),
}


@pytest.fixture
def no_lstm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that has no LSTM of any dtype that is probed."""
    monkeypatch.setattr(lstms, "has_lstm", lambda *_: False)


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    has_lstm.cache_clear()
    yield
    has_lstm.cache_clear()


def inputs(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(2)).to(dtype)


def computed_in(module: nn.Module) -> set[torch.dtype]:
    """Dtypes in which the LSTMs of a module are computed, filled by its calls."""
    found: set[torch.dtype] = set()

    def note(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        found.add(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else arguments[0].data.dtype)

    for layer in module.modules():
        if isinstance(layer, nn.LSTM):
            layer.register_forward_pre_hook(note)
    return found


@pytest.mark.usefixtures("no_lstm")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("user", USERS)
def test_without_an_lstm_of_autocasts_dtype_all_users_compute_in_float32(
    user: str, mask: str, dtype: torch.dtype
) -> None:
    module, x = USERS[user](), inputs()
    expected = module(x, mask=MASKS[mask]).y.detach()
    computed = computed_in(module)
    with torch.autocast("cpu", dtype):
        y = module(x, mask=MASKS[mask]).y
    assert computed == {torch.float32}
    torch.testing.assert_close(y.float(), expected, rtol=0.02, atol=0.02)
    y.float().square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()), name


@pytest.mark.usefixtures("no_lstm")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_parameters_in_a_dtype_without_an_lstm_are_widened_and_learn(mask: str, dtype: torch.dtype) -> None:
    module, x = LSTM(WIDTH, causal=True).to(dtype), inputs(dtype).requires_grad_()
    exact = LSTM(WIDTH, causal=True)
    exact.load_state_dict(module.state_dict())
    computed = computed_in(module)
    y = module(x, mask=MASKS[mask]).y
    assert computed == {torch.float32}
    assert torch.equal(y, exact(x.float(), mask=MASKS[mask]).y.to(dtype))  # only the result is rounded
    y.float().sum().backward()
    for tensor in (x, *module.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.dtype == dtype
        assert bool(tensor.grad.any())
    assert all(parameter.dtype == dtype for parameter in module.parameters())


@pytest.mark.usefixtures("no_lstm")
def test_results_and_states_have_the_requested_dtype() -> None:
    layer, x = nn.LSTM(WIDTH, WIDTH, batch_first=True), inputs()
    before = torch.zeros(1, 3, WIDTH), torch.ones(1, 3, WIDTH)
    expected, (hidden, cell) = layer(x, before)
    with torch.autocast("cpu", torch.bfloat16):
        y, after = run_lstm(layer, x, before)
    for found, wanted in zip((y, *after), (expected, hidden, cell), strict=True):
        assert torch.equal(found, wanted.bfloat16())


@pytest.mark.usefixtures("no_lstm")
def test_a_stream_in_pieces_is_near_the_whole() -> None:
    module, x = LSTM(WIDTH, causal=True), inputs()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        whole, state = module(x).y, module.initial_state(3, 0, torch.float32, CPU)
        pieces = []
        for piece in x.split(2, dim=1):
            output = module(piece, state=state)
            pieces.append(output.y)
            state = output.state
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_float32_and_float64_are_pytorchs_bit_for_bit_and_never_probed(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lstms, "has_lstm", None)  # a probe would fail
    layer = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True, bidirectional=True).to(dtype)
    results = []
    for run in (lambda *given: run_lstm(layer, *given), layer):
        x = inputs(dtype).requires_grad_()
        y, (hidden, cell) = run(x)
        results.append((y, hidden, cell, *torch.autograd.grad(y.sum() + cell.sum(), [x, *layer.parameters()])))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*results, strict=True))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_where_the_processor_has_an_lstm_it_is_pytorchs_bit_for_bit(autocast: bool, dtype: torch.dtype) -> None:
    layer = nn.LSTM(WIDTH, WIDTH, batch_first=True).to(torch.float32 if autocast else dtype)
    x = inputs(layer.weight_ih_l0.dtype)
    if not has_lstm(CPU, x.dtype, dtype):
        pytest.skip(f"this processor has no LSTM in {dtype}")
    with torch.no_grad(), torch.autocast("cpu", dtype, enabled=autocast):
        found, _ = run_lstm(layer, x)
        wanted, _ = layer(x)
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_under_autocast_every_processor_trains(mask: str, dtype: torch.dtype) -> None:
    module, x = LSTM(WIDTH, causal=False), inputs()
    with torch.autocast("cpu", dtype):
        y = module(x, mask=MASKS[mask]).y
    y.float().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in module.parameters())


@pytest.mark.usefixtures("fresh_probe")
def test_the_probe_answers_the_same_wherever_it_is_asked_and_leaves_no_trace() -> None:
    answer = has_lstm(CPU, torch.float32, torch.bfloat16)
    random = torch.get_rng_state()
    has_lstm.cache_clear()
    with torch.inference_mode(), torch.autocast("cpu", torch.float16), FlopCounterMode(display=False) as counter:
        assert has_lstm(CPU, torch.float32, torch.bfloat16) == answer
    assert counter.get_total_flops() == 0
    has_lstm.cache_clear()
    found = torch.func.vmap(lambda x: x * has_lstm(CPU, torch.float32, torch.bfloat16))(torch.ones(2))
    assert found.tolist() == [float(answer)] * 2
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.usefixtures("fresh_probe")
def test_the_probe_runs_once_and_its_failure_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse(*given: Any, **options: Any) -> Any:
        calls.append(given)
        raise RuntimeError("could not create a primitive descriptor for the LSTM forward propagation primitive")

    monkeypatch.setattr(torch, "lstm", refuse)
    layer, x = nn.LSTM(WIDTH, WIDTH, batch_first=True), inputs()
    with torch.autocast("cpu", torch.bfloat16):
        results = [run_lstm(layer, x)[0] for _ in range(3)]
    assert len(calls) == 1
    assert torch.equal(results[0], layer(x)[0].bfloat16())


@pytest.mark.usefixtures("fresh_probe")
def test_a_processor_that_cannot_go_backward_has_no_lstm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise RuntimeError("could not create a primitive descriptor for the LSTM backward propagation primitive")

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    assert not has_lstm(CPU, torch.bfloat16, torch.bfloat16)


@pytest.mark.usefixtures("fresh_probe")
def test_memory_that_runs_out_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(torch, "lstm", refuse)
        with pytest.raises(torch.OutOfMemoryError):
            has_lstm(CPU, torch.bfloat16, torch.bfloat16)
    assert has_lstm(CPU, torch.bfloat16, torch.bfloat16)  # PyTorch's own kernel serves every processor


@pytest.mark.usefixtures("no_lstm")
@pytest.mark.parametrize("autocast", [False, True])
def test_tensors_that_replace_the_parameters_are_used_and_learn(autocast: bool) -> None:
    module, x = LSTM(WIDTH, causal=True), inputs()
    leaves = {name: (2 * p.detach()).requires_grad_() for name, p in module.named_parameters()}
    replaced = {name: leaf * 1 for name, leaf in leaves.items()}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = torch.func.functional_call(module, replaced, (x,)).y
    assert all(bool(gradient.any()) for gradient in torch.autograd.grad(y.float().sum(), list(leaves.values())))
    module.load_state_dict(leaves)
    torch.testing.assert_close(y.float(), module(x).y, rtol=0.02, atol=0.02)


def test_packed_sequences_stay_packed(no_lstm: None) -> None:
    packed = nn.utils.rnn.pack_padded_sequence(inputs(), torch.tensor([7, 4, 1]), batch_first=True)
    layer = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = run_lstm(layer, packed)
    assert isinstance(y, PackedSequence)
    assert torch.equal(y.data, layer(packed)[0].data.bfloat16())
    assert torch.equal(y.batch_sizes, packed.batch_sizes)


def test_recurrent_layers_of_pytorch_are_made_only_where_run_lstm_computes_them() -> None:
    package = Path(evodevo.__file__).parent
    # What source/ holds is the text of exported files, which run without evodevo.
    for path in (path for path in package.rglob("*.py") if path.parent.name != "source"):
        text = path.read_text()
        assert "nn.GRU(" not in text, path
        assert "nn.RNN(" not in text, path
        if "nn.LSTM(" in text:
            assert "run_lstm(" in text, path
            assert "self.lstm(" not in text, path
