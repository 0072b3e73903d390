"""AdamW (Loshchilov & Hutter 2019): groups of parameters, weight decay, and the schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

# The first optimiser of a process imports it, which takes a second. Imported here, a warm worker pays once for all the
# children that it forks.
import torch._dynamo
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.training.settings import OptimizerSettings


def build(
    model: nn.Module, settings: OptimizerSettings, factors: Mapping[str, float] | None = None
) -> torch.optim.AdamW:
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
    known = _factors(model) | dict(factors or {})
    _check(model, known)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameters, decay in ((decayed, settings.weight_decay), (plain, 0.0)):
        for name, parameter in parameters.items():
            groups.setdefault((decay, factor_of(name, known)), []).append(parameter)
    # fused=True is one kernel for all parameters: on one CPU thread a third of the time of foreach, a fifth of the
    # time of the plain loop.
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": decay, "factor": factor, "lr": settings.learning_rate * factor}
            for (decay, factor), parameters in groups.items()
        ],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        fused=True,
    )


def factor_of(name: str, factors: Mapping[str, float]) -> float:
    """The factor of a parameter's learning rate: that of the longest prefix of its name that ends at a dot."""
    fitting = [beginning for beginning in factors if _begins(name, beginning)]
    return factors[max(fitting, key=len)] if fitting else 1.0


def _begins(name: str, beginning: str) -> bool:
    return f"{name}.".startswith(f"{beginning.removesuffix('.')}.")


def _factors(model: nn.Module) -> dict[str, float]:
    ask = getattr(model, "learning_rates", None)
    factors: dict[str, float] = {} if ask is None else ask()
    return factors


def _check(model: nn.Module, factors: Mapping[str, float]) -> None:
    names = [name for name, _ in model.named_parameters()]
    for beginning in factors:
        if not any(_begins(name, beginning) for name in names):
            raise UsageError(f"a learning rate is given for {beginning!r}, but no parameter's name begins like that.")


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


def learning_rate_factor(progress: float, warmup: float, floor: float) -> float:
    """The learning rate as a fraction of the highest, in [0, 1].

    Args:
        progress: Share of the budget used after the current step, in [0, 1].
        warmup: Share of the budget in which the rate rises linearly from 0 to 1, in [0, 1).
        floor: Rate at the end, reached along half a cosine, in [0, 1].
    """
    if progress < warmup:
        return progress / warmup
    descent = min(1.0, (progress - warmup) / (1.0 - warmup))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * descent))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group to this rate times the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)


def state_by_name(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, dict[str, Tensor]]:
    """The moments and the step of every parameter that has been updated, by the parameter's name; not copies."""
    return {
        name: dict(optimizer.state[parameter])
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }


def load_state(
    model: nn.Module, optimizer: torch.optim.AdamW, state: dict[str, dict[str, Tensor]], *, changed: bool = False
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
        moments = [values[key] for key in ("exp_avg", "exp_avg_sq")]
        if set(values) != {"exp_avg", "exp_avg_sq", "step"} or any(m.shape != parameter.shape for m in moments):
            raise UsageError(
                f"the optimiser state of {name!r} does not fit its parameter of shape {tuple(parameter.shape)}."
            )
        optimizer.state[parameter] = {
            # The fused kernel needs the step count on the parameter's device.
            key: torch.empty_like(parameter if key != "step" else value, device=parameter.device).copy_(value)
            for key, value in values.items()
        }
