"""A growth that begins with a backbone that a search found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import Small
from evodevo.errors import NotFoundError, UsageError
from evodevo.growth.backbone.arms import GrowingBackbone
from evodevo.growth.backbone.evolved import names_individual, with_evolved
from evodevo.growth.backbone.spec import STAGES
from evodevo.growth.run import grow
from evodevo.runs.archive import Archive
from evodevo.settings import validate


def test_it_begins_as_the_individual_is(small: Small) -> None:
    """The same LIVs at the same sizes, so that its operators have as many parameters."""
    with Archive(small.store) as archive:
        individual = archive.run(small.run).best()
        changed = with_evolved({"backbone": {"genome": individual.id, "tokens": 8}}, archive)
        space = individual.run.space
        start = validate(GrowingBackbone, changed["backbone"], what="the start")
        structure = start.structures()[0]
        own, genome = structure.parse()
        assert space.print(individual.genome) == own.print(genome)
        assert [plan.row.name for plan in own.plan(genome)] == [plan.row.name for plan in individual.plan]
        costs = [one.cost(what, vocabulary=256, length=16) for one, what in ((space, individual.genome), (own, genome))]
        assert costs[0].parameters == costs[1].parameters
        assert own.settings.dimensions.head == space.settings.dimensions.head
        assert (start.starts, start.tokens) == ((), 8)
        other = with_evolved(
            {"backbone": {"genome": individual.id[:8], "width": 32, "starts": ["51111 91111"]}}, archive
        )
        assert (other["backbone"]["width"], other["backbone"]["starts"]) == (32, ["51111 91111"])
        assert other["backbone"]["genome"] == individual.text


@pytest.mark.parametrize(
    ("genome", "named"),
    [("last", True), ("0123456789ab", True), ("51111 91111", False), ("transformer++", False), ("51111", False)],
)
def test_a_genome_is_no_individual(genome: str, named: bool) -> None:
    assert names_individual({"backbone": {"genome": genome}}) is named
    assert not names_individual({})


def test_who_is_no_backbone_or_not_there_is_refused(small: Small) -> None:
    with Archive(small.store) as archive, pytest.raises(NotFoundError):
        with_evolved({"backbone": {"genome": "0" * 12}}, archive)
    with Archive(small.store) as archive:
        individual = archive.run(small.run).best()

        def asked(space: Any = None, **changes: Any) -> None:
            settings = individual.run.settings
            space = space or settings.space.model_copy(update=changes)
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(vars(individual.run), "settings", settings.model_copy(update={"space": space}))
                patch.setattr(archive, "individual", lambda prefix: individual)
                with_evolved({"backbone": {"genome": individual.id}}, archive)

        for changes, words in (({"residuals": True}, "residuals"), ({"open_genes": ("operator",)}, "lower levels")):
            with pytest.raises(UsageError, match=words):
                asked(**changes)
        sizes = individual.run.settings.space.dimensions
        with pytest.raises(UsageError, match=r"dimensions\.band"):
            asked(dimensions=sizes.model_copy(update={"band": sizes.band + 1}))
        with pytest.raises(UsageError, match=f"{individual.id} is no backbone of a search: evolve"):
            asked(space="a space of something else")


def test_the_command_trains_it(small: Small, tmp_path: Path) -> None:
    store = tmp_path / "runs"  # others look at the newest run of the shared one
    shutil.copytree(small.store, store)
    with Archive(small.store) as archive:
        individual = archive.run(small.run).best()
    overrides = {
        "backbone": {"genome": individual.id, "tokens": 16, "edits": [{"kind": "widen", "at": 0.4}]},
        "evaluation": {
            "task_settings": {"data": str(small.text), "context_length": 16},
            "training": {"budget": {"flops": 2e8}, "batch_size": 4},
            "validation_samples": 8,
            "test_samples": 8,
            "curve_samples": 4,
        },
        "execution": {"executor": "serial"},
    }
    run = grow("backbone.growing", overrides=overrides, store=store)
    grown = next(one for one in run.individuals() if one.genome.name == "grown")
    assert grown.genome.network.structure.genome == individual.text
    begins, widened = grown.fact[STAGES]
    assert (begins["edits"], begins["width"], widened["width"]) == ([], 16, 32)
