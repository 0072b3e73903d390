"""The facts of a growth: its course as JSON for reports."""

from __future__ import annotations

from typing import Any

from evodevo.growth.events.learning import Learner
from evodevo.growth.forks.plan import ForkPlan
from evodevo.growth.procedures.course import GrowthCourse
from evodevo.growth.spec import GrowthSettings
from evodevo.training.settings import Budget


def facts_of(course: GrowthCourse, settings: GrowthSettings) -> dict[str, Any]:
    """What every growth has; for the keys see ``train_grow``."""
    decisions = [(event.number, decision) for event in course.events for decision in event.decisions]
    return {
        "strategist": settings.strategist,
        "start": [{"id": module.id, "archetype": module.genotype.archetype} for module in course.start],
        "edits": [edit.model_dump(mode="json", exclude={"tensors"}) for edit in course.edits],
        "decisions": len(decisions),
        "differing": [
            {
                "event": number,
                "action": decision.action.words,
                "prior": "" if decision.prior is None else decision.prior.words,
            }
            for number, decision in decisions
            if decision.differs
        ],
        "timeline": [
            {
                "event": event.number,
                "step": event.step,
                "share": event.share,
                "value": event.value,
                "loss": event.loss,
                "modules": [row.model_dump(mode="json") for row in event.modules],
                "born": list(event.born),
                "gone": list(event.gone),
            }
            for event in course.events
        ],
        "looks": [look.model_dump(mode="json") for look in course.looks],
        "end": None if course.end is None else course.end.model_dump(mode="json"),
        "rewards": [{**reward.model_dump(mode="json"), "total": reward.total} for reward in course.rewards],
    }


def fork_facts(course: GrowthCourse, settings: GrowthSettings, plan: ForkPlan | None, budget: Budget) -> dict[str, Any]:
    """Nothing where no forks were wanted."""
    if plan is None:
        return {}
    rows = [
        {"event": event.number, **event.fork.model_dump(mode="json")}
        for event in course.events
        if event.fork is not None
    ]
    in_seconds = plan.unit == "seconds"
    used = sum(row.get("seconds", 0.0) if in_seconds else row["spent"] + row["winner_flops"] for row in rows)
    whole = budget.seconds if in_seconds else budget.flops
    assert whole is not None, "the budget is in the unit of the plan"
    level = settings.forks.level
    return {"forks": {**plan.model_dump(mode="json"), "level": level, "share": used / whole, "tried": rows}}


def cap_facts(course: GrowthCourse, settings: GrowthSettings) -> dict[str, Any]:
    """Nothing where no cap falls."""
    if not settings.caps.falls:
        return {}
    falls = [
        {"event": event.number, "step": event.step, "share": event.share, **event.fall.model_dump(mode="json")}
        for event in course.events
        if event.fall is not None
    ]
    return {"caps": {"limits": settings.caps.after(0).limits, "falls": falls, "costs": course.costs}}


def policy_facts(learner: Learner, settings: GrowthSettings) -> dict[str, Any]:
    """What a policy goes on from, or why it begins anew; nothing where it was given no memory.

    ``runs`` and ``rewards`` are those in which it was trained before; ``anew`` is empty where it goes on.
    """
    given = settings.edit_memory is not None or settings.policy_memory is not None
    if not (given and settings.memory and learner.strategist.hands_on):
        return {}
    policy = learner.policy
    if policy is not None:
        return {"policy": {"runs": policy.runs, "rewards": policy.scale.count, "anew": ""}}
    none = settings.policy_memory is None
    anew = f"the memory has no policy of {settings.strategist}" if none else "policy.memory.continues is false"
    return {"policy": {"runs": 0, "rewards": 0, "anew": anew}}


def shift_facts(course: GrowthCourse, settings: GrowthSettings) -> dict[str, Any]:
    """Nothing where the data did not shift."""
    facts = [
        {
            **settings.shift.model_dump(mode="json", include={"kind", "at"}),
            "event": event.number,
            "step": event.step,
            "share": event.share,
            **event.shift.model_dump(mode="json"),
        }
        for event in course.events
        if event.shift is not None
    ]
    return {"shift": facts[0]} if facts else {}
