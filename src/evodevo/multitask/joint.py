"""A root that several tasks train together: one path, a head for each task, and a step of one task after the other.

Hard parameter sharing (Caruana 1997, Multitask Learning). The path begins with the weights of another root. The heads
are components of the root beside those of its path; an agent's first child shares that of its task, later ones copy it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from evodevo.execution.base import Report
from evodevo.multitask.evaluate import course_of, labelled, open_path, outcome_of, validated
from evodevo.multitask.evaluate_settings import ComponentSource, PathRequest, answered, read_request
from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.built import BuiltPath
from evodevo.multitask.problem import EVALS, IMPROVED
from evodevo.multitask.settings import TASK_HEAD, JointTask
from evodevo.multitask.training.training import train_path
from evodevo.multitask.training.values import optimizer_settings
from evodevo.randomness import integer_seed
from evodevo.search.problem import Outcome
from evodevo.settings import validate
from evodevo.tasks.multitask.batches import training_places
from evodevo.tasks.multitask.task import MultitaskSettings
from evodevo.training.precision import decide


class JointPaths(nn.Module):
    """Paths of several tasks that share all components but their heads.

    Args:
        paths: Number of a task -> its path.
    """

    def __init__(self, paths: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.paths = nn.ModuleDict(paths)

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        """What the path of one task reads, by the task's number -> logits (B, classes of the task)."""
        ((number, samples),) = inputs.items()
        logits: Tensor = self.paths[number](samples)
        return logits


def evaluate_joint(payload: bytes, report: Report) -> bytes:
    """Train a root: ``PathRequest`` with tasks ``together`` -> an answer as ``multitask.problem.ChildProblem`` has it.

    Its quality is the mean over the tasks. Live messages: {"step", "steps"} after each validation.
    """
    return answered(lambda: _train(read_request(payload), report))


def _train(request: PathRequest, report: Report) -> Outcome:
    requests = [_of_task(request, number) for number in range(len(request.together))]
    opened = [open_path(one) for one in requests]
    precision = decide(request.training.device, request.training.precision)
    first = opened[0][0]
    for built, _, _ in opened[1:]:
        _share(first, built)
    # Steps of all tasks have one number of samples: that of the whole.
    whole = sum(task.count("train") for _, task, _ in opened)
    plan = request.training.plan(whole, min(task.count("validation") for _, task, _ in opened))
    of_tasks = [
        labelled(built, task, "train", one, precision) for (built, task, _), one in zip(opened, requests, strict=True)
    ]
    judges = [
        validated(built, task, one.training.plan(task.count("train"), task.count("validation")), one, precision)
        for (built, task, _), one in zip(opened, requests, strict=True)
    ]
    looks: list[list[float]] = []

    def batch(step: int) -> tuple[Any, Tensor]:
        turn, number = divmod(step, len(opened))
        places = training_places(opened[number][1].count("train"), requests[number].seed, turn, plan.batch)
        inputs, classes = of_tasks[number](places, step)
        return {str(number): inputs}, classes

    def judged() -> float:
        looks.append([judge() for judge in judges])
        return math.fsum(looks[-1]) / len(judges)

    heads = {f"{TASK_HEAD}{number}": built.components[HEAD] for number, (built, _, _) in enumerate(opened)}
    learners = {**{role: part for role, part in first.components.items() if role != HEAD}, **heads}
    result = train_path(
        JointPaths({str(number): built.model for number, (built, _, _) in enumerate(opened)}),
        learners,
        batch,
        judged,
        plan,
        request.training,
        optimizer_settings(request.path.hparams),
        bar=request.bar,
        precision=precision,
        seed=request.seed,
        factors=first.factors,
        on_validation=lambda step, steps: report({"step": step, "steps": steps}),
    )
    facts: dict[str, Any] = {"flops": first.flops, **course_of(request, result, plan.batch)}
    if result.kept is None:
        return Outcome("diverged", detail=facts["explanation"], extra=facts)
    facts |= {EVALS: list(result.evals), IMPROVED: True, "tasks": _by_task(request.together, looks[result.kept])}
    # A root that was planned before heads were kept asks for none.
    return outcome_of(request, {role: learners[role] for role in request.trained}, facts)


def _of_task(request: PathRequest, number: int) -> PathRequest:
    """The request of the path of one task: all of the root, and its head."""
    task = request.together[number]
    blocks = {role: source for role, source in request.components.items() if not role.startswith(TASK_HEAD)}
    changed = {
        "path": request.path.model_copy(update={"classes": task.classes, "task": task.name}),
        "components": {**blocks, HEAD: ComponentSource(train=True, how="new")},
        "task": task.name,
        "task_settings": validate(MultitaskSettings, task.task, what=f"settings of task {task.name!r}"),
        "task_key": task.task_key,
        "seed": integer_seed(request.seed, task.name),
        "together": (),
    }
    return request.model_copy(update=changed)


def _share(first: BuiltPath, other: BuiltPath) -> None:
    """Let a path have the components of another one, but for its head."""
    parts = other.model.parts
    assert isinstance(parts, nn.ModuleDict), "made of components"
    for role, component in first.components.items():
        if role != HEAD:
            parts[role] = component


def _by_task(tasks: Sequence[JointTask], qualities: Sequence[float]) -> Mapping[str, float]:
    return {one.name: quality for one, quality in zip(tasks, qualities, strict=True)}
