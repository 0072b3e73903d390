"""Optimisers: AdamW (Loshchilov & Hutter 2019) or SGD with momentum, over groups of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.training.settings import MomentumSettings, OptimizerSettings

Groups = list[dict[str, Any]]
"""Groups of parameters: ``params``, ``weight_decay``, ``lr``, and ``factor``, that of the learning rate."""


class AdamW(torch.optim.AdamW):
    """PyTorch's AdamW.

    Attributes:
        state_keys: Tensors that it keeps for each parameter.
    """

    state_keys: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq", "step")

    def __init__(self, groups: Groups, settings: OptimizerSettings) -> None:
        # fused=True is one kernel for all parameters: on one CPU thread a third of the time of foreach, a fifth of the
        # time of the plain loop.
        super().__init__(groups, lr=settings.learning_rate, betas=(settings.beta1, settings.beta2), fused=True)

    def clip(self, parameters: Sequence[nn.Parameter], largest: float) -> Tensor:
        """Scale all gradients so that their joint norm is at most about ``largest``; returns the norm before."""
        return nn.utils.clip_grad_norm_(parameters, largest)


class Momentum(torch.optim.Optimizer):
    """SGD with momentum (docs/spec/munet.md#training), without weight decay.

    Equal to ``torch.optim.SGD`` up to rounding. The sum of gradients may be kept in bfloat16, as in the published code.

    Attributes:
        state_keys: Tensors that it keeps for each parameter.
    """

    state_keys: ClassVar[tuple[str, ...]] = ("trace",)

    def __init__(self, groups: Groups, settings: MomentumSettings) -> None:
        super().__init__(groups, {"lr": settings.learning_rate})
        self._settings = settings

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step; a parameter without a gradient stays as it is."""
        momentum = self._settings.momentum
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                state = self.state[parameter]
                trace = gradient.clone()
                if "trace" in state:
                    trace += momentum * state["trace"].to(gradient.dtype)
                state["trace"] = trace.bfloat16() if self._settings.trace_format == "bfloat16" else trace
                change = gradient + momentum * trace if self._settings.nesterov else trace
                parameter.sub_(group["lr"] * change)

    @torch.no_grad()
    def clip(self, parameters: Sequence[nn.Parameter], largest: float) -> Tensor:
        """Scale all gradients so that their joint norm is at most ``largest``; returns the norm before."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        # Gradients that are short enough stay as they are to the bit, unlike those of clip_grad_norm_.
        if norm > largest:
            for gradient in gradients:
                gradient *= largest / float(norm)
        return norm


def build(
    model: nn.Module, settings: OptimizerSettings | MomentumSettings, factors: Mapping[str, float] | None = None
) -> AdamW | Momentum:
    """The optimiser of a model's trainable parameters, in groups: decayed or not, and by factor of the learning rate.

    Args:
        model: Model; its method ``learning_rates``, if any, returns factors too.
        settings: Settings of all groups.
        factors: Prefix of a parameter's name -> factor of its learning rate; they override those of the model. The
            longest matching prefix is used, and 1 where none matches.

    Raises:
        UsageError: All parameters are frozen, or the prefix of a factor matches no parameter.
    """
    decayed, plain = decay_groups(model)
    if not decayed and not plain:
        raise UsageError("the model has no parameter to train; every one is frozen.")
    ask = getattr(model, "learning_rates", None)
    known: dict[str, float] = ({} if ask is None else ask()) | dict(factors or {})
    names = [name for name, _ in model.named_parameters()]
    for beginning in known:
        if not any(_begins(name, beginning) for name in names):
            raise UsageError(f"a learning rate is given for {beginning!r}, but no parameter's name begins like that.")
    weight_decay = settings.weight_decay if isinstance(settings, OptimizerSettings) else 0.0
    parts: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameters, decay in ((decayed, weight_decay), (plain, 0.0)):
        for name, parameter in parameters.items():
            parts.setdefault((decay, factor_of(name, known)), []).append(parameter)
    groups = [
        {"params": parameters, "weight_decay": decay, "factor": factor, "lr": settings.learning_rate * factor}
        for (decay, factor), parameters in parts.items()
    ]
    return AdamW(groups, settings) if isinstance(settings, OptimizerSettings) else Momentum(groups, settings)


def factor_of(name: str, factors: Mapping[str, float]) -> float:
    """The factor of a parameter's learning rate: that of the longest prefix of its name that ends at a dot."""
    fitting = [beginning for beginning in factors if _begins(name, beginning)]
    return factors[max(fitting, key=len)] if fitting else 1.0


def _begins(name: str, beginning: str) -> bool:
    return f"{name}.".startswith(f"{beginning.removesuffix('.')}.")


def decay_groups(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Trainable parameters by name: those with weight decay, and those without.

    Vectors and scalars (norms, biases, gates) have no weight decay, and neither have parameters that an operator marks
    with
    ``parameter.no_weight_decay = True`` (decay rates of recurrences, whatever their shape).
    """
    decayed: dict[str, nn.Parameter] = {}
    plain: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            marked = parameter.ndim < 2 or getattr(parameter, "no_weight_decay", False)
            (plain if marked else decayed)[name] = parameter
    return decayed, plain


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group to this rate times the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)


def state_by_name(model: nn.Module, optimizer: AdamW | Momentum) -> dict[str, dict[str, Tensor]]:
    """The tensors that the optimiser keeps for every parameter it has updated, by the parameter's name; not copies."""
    return {
        name: dict(optimizer.state[parameter])
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }


def load_state(
    model: nn.Module, optimizer: AdamW | Momentum, state: dict[str, dict[str, Tensor]], *, changed: bool = False
) -> None:
    """Copy a state by name into an optimiser before its first step; parameters without a state start anew.

    Args:
        model: Model whose parameters the optimiser trains.
        optimizer: Optimiser to fill.
        state: State in the form of ``state_by_name``.
        changed: Whether names that the model does not train (any more) are skipped. A parameter that keeps its name
            must keep its shape; for added or removed rows see ``surgery.carry_state``.

    Raises:
        UsageError: The state has a name that the model does not train, or a moment of another shape.
    """
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    for name, values in state.items():
        if name not in parameters:
            if changed:
                continue
            raise UsageError(f"the optimiser state has {name!r}, which this model does not train.")
        parameter = parameters[name]
        shapes = {value.shape for key, value in values.items() if key != "step"}
        if set(values) != set(optimizer.state_keys) or shapes != {parameter.shape}:
            raise UsageError(
                f"the optimiser state of {name!r} does not fit its parameter of shape {tuple(parameter.shape)}."
            )
        optimizer.state[parameter] = {
            # The fused kernel needs the step count on the parameter's device.
            key: torch.empty_like(
                parameter if key != "step" else value, dtype=value.dtype, device=parameter.device
            ).copy_(value)
            for key, value in values.items()
        }
