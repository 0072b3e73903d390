"""Objectives of recall: a small training of a genome's own, and its place in a search."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evodevo import canonical
from evodevo.backbone.evaluate import evaluate_backbone
from evodevo.backbone.problem import BackboneProblem
from evodevo.backbone.recall.settings import RECALL_OBJECTIVES, RecallProbeSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.objectives.base import OBJECTIVES, Subject
from evodevo.operators.spec import Dimensions
from evodevo.search.problem import read_answer
from evodevo.tasks.base import TASKS

BRIEF = RecallProbeSettings(length=16, vocabulary=16, steps=3, batch_size=4)
SPACE = BackboneSpace(BackboneSettings(depth=2, dimensions=Dimensions(width=16, head_size=4)))


def subject(seed: int = 0, recall: RecallProbeSettings = BRIEF, genome: str = "11111 91111") -> Subject:
    return Subject(space=SPACE, genome=SPACE.parse(genome), length=16, vocabulary=256, seed=seed, recall=recall)


@pytest.mark.parametrize("name", RECALL_OBJECTIVES)
def test_each_task_of_recall_is_an_objective(name: str) -> None:
    objective = OBJECTIVES.get(name)
    assert name in TASKS
    assert (objective.direction, objective.judges) == ("maximise", "language_model")
    first, again = objective.measure(subject()).value, objective.measure(subject()).value
    assert 0 <= first == again <= 1


@pytest.mark.slow
def test_training_is_what_the_share_comes_from() -> None:
    copying = OBJECTIVES.get("mqar")
    longer = RecallProbeSettings(length=16, vocabulary=16, steps=120, batch_size=16, learning_rate=1e-2)
    before, after = copying.measure(subject()).value, copying.measure(subject(recall=longer)).value
    guess = TASKS.get("mqar").open(TASKS.get("mqar").settings_class(length=16, vocabulary=16)).guesses()
    assert before < after
    assert after > guess["any value"] + 0.05


def test_a_search_reads_it_beside_quality(problem: Callable[..., BackboneProblem]) -> None:
    changes = {"objectives": ["quality", "mqar"], "recall": BRIEF.model_dump()}
    made = problem(changes)
    genome = made.space.parse("11111 91111 11111 91111")
    outcome = read_answer(evaluate_backbone(made.payload(genome, 3), lambda message: None))
    assert outcome.reason is None
    assert set(outcome.scores) == {"quality", "mqar"}
    assert 0 <= outcome.scores["mqar"] <= 1
    assert [goal.direction for goal in made.goals] == ["minimise", "maximise"]


def test_its_budget_decides_the_score_and_is_no_part_of_other_searches(problem: Callable[..., BackboneProblem]) -> None:
    longer = BRIEF.model_copy(update={"steps": 4}).model_dump()
    fidelities = [
        problem({"objectives": ["quality", "mqar"], "recall": settings}).fidelity
        for settings in (BRIEF.model_dump(), longer)
    ]
    assert len(set(fidelities)) == 2
    assert problem({"recall": longer}).fidelity == problem().fidelity
    assert canonical.dumps(problem().decisive()) == canonical.dumps(problem({"recall": longer}).decisive())
