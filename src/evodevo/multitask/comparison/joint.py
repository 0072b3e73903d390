"""The root that all tasks of a recipe train together, from a copy of the recipe's root."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.multitask.comparison.systems import RecipeRunner
from evodevo.multitask.recipes.settings import TaskPlan
from evodevo.multitask.schedule import is_joint
from evodevo.multitask.settings import JOINT, AgentSettings, JointTask
from evodevo.multitask.system import System

JOINT_LOOKS = 10
"""Looks at the validation splits in the training of a joint root."""


def joint_root(course: RecipeRunner, system: System, tasks: Sequence[TaskPlan], samples: int) -> None:
    """Add such a root to a system where it has none; it is trained before the next agents run.

    Args:
        course: Runner of the recipe.
        system: System with the recipe's root.
        tasks: Tasks that train it.
        samples: Number of training samples, up to whole steps between looks.
    """
    if any(is_joint(agent) for agent in system.agents()):
        return
    root = course.root_agent(system)
    assert root is not None, "made before"
    facts = [course.facts(task) for task in tasks]
    together = [
        JointTask(name=task.name, classes=one.classes, task=one.task, task_key=one.task_key).model_dump(mode="json")
        for task, one in zip(tasks, facts, strict=True)
    ]
    agent = course.settings.system.agent
    options = {
        "hyperparameters": agent.hyperparameters,
        "structure": agent.structure,
        "together": together,
        "begins": root.name,
    }
    steps = max(1, round(samples / (course.training.batch * JOINT_LOOKS))) * JOINT_LOOKS
    system.add_root(
        course.kind,
        JOINT,
        AgentSettings(
            classes=0,
            modalities=facts[0].modalities,
            inputs=facts[0].inputs,
            training={"steps": steps, "validations": JOINT_LOOKS},
            options=options,
        ),
    )
