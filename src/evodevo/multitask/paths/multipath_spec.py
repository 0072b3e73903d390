"""A multipath model as plain data: how frozen paths are joined, what is trained, and what that costs.

µ4Net (2302.02721) section 2; docs/spec/munet.md#multipath-model. The main path answers the task; each support path is
headless, and a connector (one dense layer) maps what it represents to the task's logits; a router decides for every
sample how much each path counts. Only connectors and router are trained.

Legend: P paths with the main one, C classes, h_k width of support k, counted from 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import ROUTER_MAIN_WEIGHT, ROUTER_RATE
from evodevo.settings import Settings, validate

MAIN = "main"
ROUTER = "router"
DEFAULT_RATE, DEFAULT_MAIN_WEIGHT = 0.05, 0.8
"""λ and w*, where neither the structure nor the hyperparameters define them."""
HYPERPARAMETERS = {ROUTER_RATE: "router_rate", ROUTER_MAIN_WEIGHT: "main_weight"}
"""Hyperparameter of a path -> the field of its structure that it decides, where that is None."""
Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of a component: name in its state -> shape."""


class MultipathStructure(Settings):
    """The joining of paths; every ablation of the paper's section 3.2 is a value here.

    Attributes:
        aggregation: ``decoupled`` weighs paths forward and not backward (equation 9); ``standard`` weighs both ways
            (6; ablation 3.2.1); ``sum`` has no router (3.2.2); ``ema`` weighs the gradient of path p by w_p over its
            moving average (10).
        ema_decay: decay of that average, 0 to 1.
        router_norm: ``layer`` normalises the main logits before the router, as the published code does and the paper
            does not; refused for two classes, where it leaves nothing but a sign.
        router_start: ``main`` starts with ``main_weight`` for the main path, ``uniform`` with 1 / P for all (3.2.3).
        main_weight: w*, weight of the main path in the beginning, 0 to 1; None leaves it to
            ``router_init_main_path_weight``, a hyperparameter that is never mutated.
        router_rate: λ, the factor of the router's learning rate (equation 11); None leaves it to the hyperparameter
            ``router_lr_mult``. 1 is the ablation 3.2.4.
        rate_by: ``gradient`` scales the router's gradients (12); ``group`` gives it a learning rate of its own, which
            optimisers need that divide gradients by their size (Adam).
        skip_below: weight below which a support is not run for a sample at inference; 0 runs all.
        main_dropout: share of training samples, 0 to 1, whose answer is that of the supports alone. A main path that
            knows its training samples by heart leaves connectors nothing to learn; the papers have none.
    """

    aggregation: Literal["decoupled", "standard", "sum", "ema"] = "decoupled"
    ema_decay: float = Field(default=0.99, ge=0, lt=1)
    router_norm: Literal["none", "layer"] = "none"
    router_start: Literal["main", "uniform"] = "main"
    main_weight: float | None = Field(default=None, gt=0, lt=1)
    router_rate: float | None = Field(default=None, ge=0, le=1)
    rate_by: Literal["gradient", "group"] = "gradient"
    skip_below: float = Field(default=0.0, ge=0, lt=1)
    main_dropout: float = Field(default=0.0, ge=0, le=1, exclude_if=lambda value: not value)

    @model_validator(mode="after")
    def _skips_by_weights(self) -> Self:
        if self.skip_below and not self.has_router:
            raise ValueError("skip_below looks at the router's weights; the aggregation 'sum' has none")
        return self

    @property
    def has_router(self) -> bool:
        """Whether paths are weighed at all, where there are several."""
        return self.aggregation != "sum"

    @property
    def rate(self) -> float:
        """λ."""
        return DEFAULT_RATE if self.router_rate is None else self.router_rate

    @property
    def first_weight(self) -> float:
        """w*."""
        return DEFAULT_MAIN_WEIGHT if self.main_weight is None else self.main_weight


def structure_of(path: Path) -> MultipathStructure:
    """The joining of a path's paths: the stored structure; its open fields come from the hyperparameters.

    Raises:
        UsageError: it is of another kind, is invalid, or joins no paths.
    """
    if path.kind != "multipath" or not path.paths:
        raise UsageError(f"the path {path.id} is of kind {path.kind!r} with {len(path.paths)} paths, no multipath one.")
    given = {field: path.hparams[key] for key, field in HYPERPARAMETERS.items() if key in path.hparams}
    stored = {key: value for key, value in path.structure.items() if value is not None or key not in given}
    structure = validate(MultipathStructure, given | stored, what=f"path {path.id}")
    check_classes(structure, path.classes)
    return structure


ABLATIONS: dict[str, MultipathStructure] = {
    "full": MultipathStructure(),
    "no_decoupling": MultipathStructure(aggregation="standard"),
    "no_router": MultipathStructure(aggregation="sum"),
    "no_bias_start": MultipathStructure(router_start="uniform"),
    "no_rate_scaling": MultipathStructure(router_rate=1.0),
    "ema": MultipathStructure(aggregation="ema"),
}
"""Rows of the paper's Table 2 by name, and the variant that it proposes but does not measure."""


def router_bias(paths: int, main_weight: float) -> float:
    """The main path's bias that makes its first weight w*, all other parameters of the router being 0.

    b = ln((P - 1) w* / (1 - w*)); the paper's equation 1 as typeset divides by P - 1, which is right for two paths only
    (docs/spec/munet.md#first-weights).

    Raises:
        UsageError: w* outside (0, 1), or no second path.
    """
    if not 0 < main_weight < 1:
        raise UsageError(f"the main path's first weight lies between 0 and 1, both excluded; got {main_weight}.")
    if paths < 2:
        raise UsageError(f"a router chooses among two paths or more; got {paths}.")
    return math.log((paths - 1) * main_weight / (1 - main_weight))


def connector(number: int) -> str:
    """The role of support ``number``'s connector, and half of its name among representations; counted from 1."""
    return f"connector_{number}"


def support(number: int) -> str:
    """The name of what support ``number`` represents; counted from 1."""
    return f"support_{number}"


def multipath_shapes(structure: MultipathStructure, classes: int, widths: Sequence[int]) -> dict[str, Shapes]:
    """Role -> shapes, of every component that is trained, in the order in which a sample passes them.

    Args:
        structure: joining of the paths.
        classes: C.
        widths: h_k of each support; none at all leaves the main path alone, and nothing to train.

    Raises:
        UsageError: a layer norm over two logits, or no classes.
    """
    check_classes(structure, classes)
    roles: dict[str, Shapes] = {
        connector(number): {"weight": (classes, width), "bias": (classes,)}
        for number, width in enumerate(widths, start=1)
    }
    paths = len(widths) + 1
    if paths == 1 or not structure.has_router:
        return roles
    router: dict[str, tuple[int, ...]] = {"dense.weight": (paths, classes), "dense.bias": (paths,)}
    if structure.router_norm == "layer":
        router |= {"norm.weight": (classes,), "norm.bias": (classes,)}
    if structure.aggregation == "ema":
        router["average"] = (paths,)
    return roles | {ROUTER: router}


def check_classes(structure: MultipathStructure, classes: int) -> None:
    """Raise a UsageError where these settings cannot serve so many classes."""
    if classes < 2:
        raise UsageError(f"a multipath model needs two classes or more; got {classes}.")
    if classes == 2 and structure.has_router and structure.router_norm == "layer":
        raise UsageError(
            "router_norm 'layer' maps any two logits to about +1 and -1: with two classes use router_norm 'none'."
        )


def multipath_parameters(structure: MultipathStructure, classes: int, widths: Sequence[int]) -> dict[str, int]:
    """Role -> trainable numbers; the moving average of the ``ema`` variant is none."""
    return {
        role: sum(math.prod(shape) for name, shape in shapes.items() if name != "average")
        for role, shapes in multipath_shapes(structure, classes, widths).items()
    }


def multipath_flops(structure: MultipathStructure, classes: int, widths: Sequence[int]) -> int:
    """FLOPs of connectors and router on one sample, the paths themselves left out; a multiply-add counts two.

    Sums and norms are not counted, as in ``backbone.cost``.
    """
    total = 2 * classes * sum(widths)
    paths = len(widths) + 1
    return total + (2 * classes * paths if paths > 1 and structure.has_router else 0)


def inherited(
    parent: Mapping[str, Shapes], child: Mapping[str, Shapes], replaced: Sequence[int] = ()
) -> dict[str, bool]:
    """Role of the child -> whether it begins as a copy of the parent's (docs/spec/munet.md#multipath-children).

    What the parent has under the same name in the same shapes is inherited. So another number of paths resets the
    router, its norm and its average, while connectors of supports that stay are kept.

    Args:
        parent: its ``multipath_shapes``; empty for a singlepath parent.
        child: its own.
        replaced: numbers of supports that are another path than the parent's; their connectors begin anew, because what
            they learned was about other representations.
    """
    fresh = {connector(number) for number in replaced}
    return {
        role: role not in fresh and {**parent.get(role, {})} == {**shapes} and bool(shapes)
        for role, shapes in child.items()
    }
