"""A sharpening phase: a trained H-Model learns to answer with the few connections that it will have at inference.

Forward only the connections that the inference mode keeps count, backward all of them do (straight through), so that
routers also learn of layers that they did not choose (docs/spec/h_model.md#sharpening). A smaller alpha on the way
pushes the remaining weights to 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from torch import nn

from evodevo.errors import UsageError
from evodevo.training.loop import TrainingProgress, TrainingResult, train
from evodevo.training.precision import Batch, Precision
from evodevo.training.settings import TrainingSettings


class Sharpenable(Protocol):
    """The part of a model that sharpening needs; ``h_model.model.HModel`` has it.

    Attributes:
        inference: choice of the connections that count in evaluation mode.
        alpha: temperature of the routers.
        sharpening: whether ``inference`` holds while training too.
    """

    inference: Any
    alpha: float
    sharpening: bool


def sharpen(
    model: nn.Module,
    settings: TrainingSettings,
    *,
    inference: Any,
    batch_at: Callable[[int], Batch],
    tokens_per_step: int,
    seed: int,
    alpha_end: float | None = None,
    report: Callable[[TrainingProgress], bool | None] | None = None,
    precision: Precision | None = None,
) -> TrainingResult:
    """Train a model in place for the mode in which it will run; the mode stays set.

    Args:
        model: an H-Model (``Sharpenable``), trained before.
        settings: budget, optimiser, device.
        inference: the mode (``networks.routing.spec.InferenceStructure``), not the dense one.
        batch_at, tokens_per_step, seed, report, precision: see ``loop.train``. Take another seed than the training's,
            or the first batches come again.
        alpha_end: the temperature at the last step, reached geometrically from the present one; it stays. None leaves
            it alone.

    Raises:
        UsageError: the dense mode, which needs no sharpening; a model without routing; an ``alpha_end`` that is not
            above 0, or with a budget that is not in steps.
    """
    if not hasattr(model, "sharpening"):
        raise UsageError(f"a {type(model).__name__} has no routing to sharpen; give an H-Model.")
    if inference.mode == "dense":
        raise UsageError(
            "the dense mode uses all connections; sharpen for source_topk, target_topm, threshold, budget."
        )
    steps = settings.budget.steps
    if alpha_end is not None and (steps is None or not alpha_end > 0):
        raise UsageError(f"alpha can fall to {alpha_end} only if it is above 0 and the budget is given in steps.")
    routed = cast(Sharpenable, model)
    start = routed.alpha

    def prepared(step: int) -> Batch:
        if alpha_end is not None and steps is not None:
            # A function of the step alone, so that a resumed phase goes on where it was.
            routed.alpha = start * (alpha_end / start) ** (min(step + 1, steps) / steps)
        return batch_at(step)

    routed.inference = inference
    routed.sharpening = True
    try:
        return train(
            model,
            settings,
            batch_at=prepared,
            tokens_per_step=tokens_per_step,
            seed=seed,
            report=report,
            precision=precision,
        )
    finally:
        routed.sharpening = False
