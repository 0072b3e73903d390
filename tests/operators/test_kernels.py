"""Kernels of other packages: which is taken, which is refused, and (on a GPU) whether the real ones agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.attention import attend, visibility
from evodevo.operators.delta import delta_scan
from evodevo.operators.kernels import choice
from evodevo.operators.kernels.table import KERNELS, Kernel, Served
from evodevo.operators.recurrence import scan
from evodevo.operators.taps import causal_taps
from evodevo.training.precision import Precision

NO_GPU = "no CUDA device is here"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    choice.forget()
    yield
    choice.forget()


def register(monkeypatch: pytest.MonkeyPatch, served: Served, adapter: Callable[..., Any], **more: Any) -> None:
    """A stand-in kernel for CPUs, of a package that is installed."""
    choice.forget()
    row = Kernel(
        **({"name": "stand-in", "classes": "", "package": "torch", "fits": lambda **sizes: True} | more),
        serves=served,
        load=lambda: adapter,
        devices=("cpu",),
    )
    monkeypatch.setattr(choice, "_rows", lambda wanted: [row] if wanted == served else [])


def token_loop(value: Tensor, write: Tensor, read: Tensor, log_decay: Tensor, initial: Any, final: bool) -> Any:
    """The recurrence in a loop over tokens, with the signature of an adapter; counts its calls."""
    calls.append(value.shape[1])
    state = torch.zeros(*value.shape[:1], value.shape[2], write.shape[3], value.shape[3])
    state, outputs = state if initial is None else initial, []
    for t in range(value.shape[1]):
        state = state * log_decay[:, t].exp()[..., None, None] + write[:, t, :, :, None] * value[:, t, :, None]
        outputs.append((read[:, t, :, None] @ state)[:, :, 0])
    return torch.stack(outputs, 1), state if final else None


calls: list[int] = []


def scan_inputs() -> list[Tensor]:
    value, write, read = torch.randn(2, 40, 3, 4), torch.randn(2, 40, 1, 5), torch.randn(2, 40, 1, 5)
    return [value, write, read, -torch.rand(2, 40, 3)]


def test_a_kernel_that_agrees_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    wanted = scan(*(inputs := scan_inputs()))
    register(monkeypatch, "scan", token_loop)
    found = scan(*inputs)
    assert calls == [96, 40], "compared once, then used"
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    scan(*inputs)
    assert calls == [96, 40, 40]


@pytest.mark.parametrize("fault", ["output", "state", "gradient", "nan", "shape", "raises", "absent function"])
def test_a_kernel_that_does_not_agree_is_named_once_and_left_out(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(value: Tensor, *rest: Any) -> Any:
        if fault == "raises":
            raise RuntimeError("no such architecture")
        if fault == "absent function":
            raise ImportError("cannot import name 'chunk'")
        y, end = token_loop(value.detach() if fault == "gradient" else value, *rest)
        if fault == "state" and end is not None:
            return y, 1.1 * end
        return {"output": 1.1 * y, "nan": y / 0, "shape": y[:, 1:]}.get(fault, y), end

    inputs = scan_inputs()
    wanted = scan(*inputs)
    register(monkeypatch, "scan", faulty)
    with pytest.warns(UserWarning, match="the kernel stand-in of torch is not used: it"):
        found = scan(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scan(*inputs)
        scan(*(x[:, :20] for x in inputs))


def test_what_does_not_fit_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("called")

    inputs = scan_inputs()
    for more in (
        {"package": "no_such_package_at_all"},
        {"package": "no_such_package.inside"},
        {"formats": ("bfloat16",)},
        {"fits": lambda tokens, state, head: state >= 16},
    ):
        register(monkeypatch, "scan", never, **more)
        scan(*inputs)
    register(monkeypatch, "scan", never)
    monkeypatch.setenv(choice.SWITCH, "off")
    scan(*inputs)


def test_comparing_draws_nothing_and_leaves_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "scan", token_loop)
    inputs = scan_inputs()
    before = torch.get_rng_state()
    with torch.inference_mode():
        scan(*inputs)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_form_asks_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own stand-in, which is compared in outputs and gradients before it is used."""
    used: list[str] = []

    def taps(x: Tensor, weights: Tensor) -> Tensor:
        used.append("taps")
        padded = F.pad(x.transpose(1, 2), (len(weights) - 1, 0))
        return F.conv1d(padded, weights.flip(0).t().unsqueeze(1), groups=x.shape[2]).transpose(1, 2)

    def delta(v: Tensor, k: Tensor, q: Tensor, g: Tensor, beta: Tensor, initial: Any) -> Any:
        used.append("delta")
        state, ys = torch.zeros(len(v), v.shape[2], v.shape[3], v.shape[3]) if initial is None else initial, []
        for t in range(v.shape[1]):
            state = state * g[:, t, :, None, None].exp()
            key = k[:, t].unsqueeze(-1)
            state = state + key @ (beta[:, t, :, None, None] * (v[:, t].unsqueeze(-2) - key.mT @ state))
            ys.append((q[:, t].unsqueeze(-2) @ state).squeeze(-2))
        return torch.stack(ys, 1), state

    def band(q: Tensor, k: Tensor, v: Tensor, width: int) -> Tensor:
        used.append("band")
        visible = visibility(q.shape[2], k.shape[2], width, None, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True)

    x, weights = torch.randn(2, 9, 8), torch.randn(3, 8)
    v, k, q = torch.randn(3, 2, 20, 2, 8).unbind(0)
    g, beta = -torch.rand(2, 20, 2), torch.rand(2, 20, 2)
    heads = [torch.randn(1, count, 16, 8) for count in (4, 2, 2)]
    cases: dict[Served, tuple[Callable[..., Any], Callable[[], Any]]] = {
        "taps": (taps, lambda: causal_taps(x, weights)),
        "delta": (delta, lambda: delta_scan(v, F.normalize(k, dim=-1), q, g, beta)[0]),
        "band": (band, lambda: attend(*heads, valid=None, band=4, nonlinearity=2)),
    }
    for served, (adapter, call) in cases.items():
        monkeypatch.undo()
        choice.forget()
        wanted = call()
        register(monkeypatch, served, adapter)
        torch.testing.assert_close(call(), wanted, rtol=1e-4, atol=1e-4)
        assert used == [served, served], "compared, then used"
        used.clear()


def test_a_kernel_that_rounds_to_tf32_serves_float32_only_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = scan_inputs()
    calls.clear()
    register(monkeypatch, "scan", token_loop, rounds=True)
    scan(*inputs)
    assert not calls
    with Precision(torch.device("cuda"), None, tf32=True).products():  # a switch; no device is touched
        scan(*inputs)
    assert calls == [96, 40]
    scan(*inputs)
    assert calls == [96, 40]


def test_no_row_serves_a_cpu() -> None:
    for name in KERNELS:
        row = KERNELS.get(name)
        assert "cpu" not in row.devices
        assert row.rounds == (row.serves == "scan"), "those whose matrix products of float32 are Triton's"
        assert row.load is not None
        assert callable(row.load()), "adapters import nothing of their packages before they are called"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32], ids=str)
def test_real_kernels_agree(name: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU with the package installed, the adapter agrees with the own form, gradients too."""
    row = KERNELS.get(name)
    if not row.installed or str(kind).removeprefix("torch.") not in row.formats:
        pytest.skip(f"{row.package} is not here, or not for {kind}")
    used: list[str] = []
    adapter = row.load()

    def watched(*arguments: Any) -> Any:
        used.append(row.name)
        return adapter(*arguments)

    only = Kernel(row.name, row.serves, row.classes, row.package, lambda: watched, row.fits, row.formats)
    monkeypatch.setattr(choice, "_rows", lambda wanted: [only] if wanted == row.serves else [])
    device = torch.device("cuda")
    x = torch.randn(2, 1024, 4, 64, device=device, dtype=kind)
    half = torch.bfloat16 if kind == torch.bfloat16 else None
    with Precision(device, half, tf32=half is None).autocast():
        if row.serves == "scan":
            write, read = torch.randn(2, 2, 1024, 1, 16, device=device).unbind(0)
            scan(x, write, read, -torch.rand(2, 1024, 4, device=device))
        elif row.serves == "delta":
            rates = torch.rand(2, 1024, 4, device=device)
            delta_scan(x, F.normalize(x, dim=-1), x, -rates, rates)
        elif row.serves == "taps":
            causal_taps(x.flatten(2), torch.randn(4, 256, device=device))
        else:
            attend(*(x.transpose(1, 2) for _ in range(3)), valid=None, band=64, nonlinearity=2)
    assert len(used) == 2, "compared, found to agree, and used"
