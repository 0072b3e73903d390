"""Optimiser state after a network has grown or shrunk: parameters that stay keep their moments, to the bit.

The caller gives the origin of each parameter (``Origin``); state is found by the parameter's name, never by its place
in a list. Works for every optimiser whose state is scalars and tensors of the parameter's shape:
SGD with momentum, Adam, AdamW, RMSprop, Adagrad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError

NamedState = Mapping[str, Mapping[str, Any]]
"""State of the optimiser by parameter name."""


@dataclass(frozen=True)
class Origin:
    """Origin of a parameter.

    Attributes:
        name: Name of the parameter before the change.
        rows: Former row for each row of its first axis, None for a new one; left out where the shape is as
            it was.
        axes: The same for every axis, instead of ``rows``.
    """

    name: str
    rows: tuple[int | None, ...] | None = None
    axes: tuple[tuple[int | None, ...], ...] | None = None

    def carry(self, before: Tensor, fill: float = 0.0) -> Tensor:
        """Convert a tensor of the old parameter's shape to the new shape; new rows get ``fill``."""
        if self.axes is not None:
            return _picked(before.detach(), self.axes, fill)
        if self.rows is None:
            return before.detach().clone()
        places = torch.tensor([-1 if row is None else row for row in self.rows], device=before.device)
        carried = before.detach()[places.clamp(min=0)].clone()
        carried[places < 0] = fill
        return carried


def _picked(before: Tensor, axes: tuple[tuple[int | None, ...], ...], fill: float) -> Tensor:
    """The old tensor's numbers at their new places along all axes, ``fill`` elsewhere."""
    places = [torch.tensor([-1 if at is None else at for at in axis], device=before.device) for axis in axes]
    after = before.new_full([len(axis) for axis in axes], fill)
    here = torch.meshgrid(*[(axis >= 0).nonzero().squeeze(1) for axis in places], indexing="ij")
    after[here] = before[torch.meshgrid(*[axis[axis >= 0] for axis in places], indexing="ij")]
    return after


Origins = Mapping[str, Origin]
"""Origin by parameter name after a change; a parameter without an origin is new."""


def state_of(parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """The optimiser's state by name; not copies."""
    return {
        name: dict(optimizer.state[parameter]) for name, parameter in parameters.items() if parameter in optimizer.state
    }


def carry_state(state: NamedState, shapes: Mapping[str, torch.Size], origins: Origins) -> dict[str, dict[str, Any]]:
    """The state after a change, by the names after it; new rows start with moments of 0.

    Args:
        state: State before, by the names before.
        shapes: Shapes of the parameters before.
        origins: Origins of the parameters after.
    """
    carried: dict[str, dict[str, Any]] = {}
    for name, origin in origins.items():
        if origin.name not in state:
            continue
        shape = shapes[origin.name]
        carried[name] = {
            key: origin.carry(value) if isinstance(value, Tensor) and value.shape == shape and shape else _copy(value)
            for key, value in state[origin.name].items()
        }
    return carried


def operate(
    optimizer: torch.optim.Optimizer,
    before: Mapping[str, nn.Parameter],
    model: nn.Module,
    origins: Origins,
    *,
    group_of: Callable[[str, nn.Parameter], int] | None = None,
) -> None:
    """Update an optimiser for a changed model, in place, so that a scheduler on it goes on.

    Every trainable parameter of the model is in exactly one group afterwards: survivors in theirs, with their state;
    new ones in the group that ``group_of`` returns. Parameters that the model no longer has are in none.

    Args:
        optimizer: Optimiser of the model before the change.
        before: All parameters by name, collected before the change.
        model: Model after the change.
        origins: Origins of its parameters.
        group_of: Returns the index of the group for name and parameter; left out, vectors go to one without decay and
            matrices to one with, where there is one.

    Raises:
        UsageError: An origin that was no parameter of the model.
    """
    unknown = sorted({origin.name for origin in origins.values()} - set(before))
    if unknown:
        raise UsageError(f"the origin {unknown[0]!r} of a parameter is none that the model had.")
    shapes = {name: parameter.shape for name, parameter in before.items()}
    state = carry_state(state_of(before, optimizer), shapes, origins)
    home = {
        id(parameter): number for number, group in enumerate(optimizer.param_groups) for parameter in group["params"]
    }
    chosen = group_of or (lambda _, parameter: _fitting_group(optimizer, parameter))
    members: list[list[nn.Parameter]] = [[] for _ in optimizer.param_groups]
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        origin = origins.get(name)
        place = None if origin is None else home.get(id(before[origin.name]))
        members[chosen(name, parameter) if place is None else place].append(parameter)
    # The state is keyed by parameter objects, of which a change makes new ones.
    optimizer.state.clear()
    for group, parameters in zip(optimizer.param_groups, members, strict=True):
        group["params"] = parameters
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if name in state:
            optimizer.state[parameter] = state[name]
        elif isinstance(optimizer, torch.optim.Adagrad):
            _begin_adagrad(optimizer, parameter)


def _fitting_group(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> int:
    plain = parameter.ndim < 2 or getattr(parameter, "no_weight_decay", False)
    for number, group in enumerate(optimizer.param_groups):
        if (group.get("weight_decay", 0.0) == 0.0) == plain:
            return number
    return 0


def _begin_adagrad(optimizer: torch.optim.Adagrad, parameter: nn.Parameter) -> None:
    """Adagrad alone makes its state when it is built, not at the first step."""
    group = next(group for group in optimizer.param_groups if any(item is parameter for item in group["params"]))
    start = group["initial_accumulator_value"]
    optimizer.state[parameter] = {"step": torch.tensor(0.0), "sum": torch.full_like(parameter, start)}


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
