"""A protocol without a search: given backbones, stacked, beside baselines at that depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evodevo.backbone.protocol.plan import works_of
from evodevo.backbone.protocol.record import TEST, read_protocol
from evodevo.backbone.protocol.settings import ProtocolSettings
from evodevo.errors import GenomeError, UsageError
from evodevo.runs.composed import stage_runs
from evodevo.runs.drive import PLAN
from evodevo.runs.evolve import evolve
from evodevo.runs.resolve import resolve
from evodevo.settings import merge

MOTIF = "11114 91111 11114 51111"


@pytest.fixture
def changes(tiny: dict[str, Any]) -> dict[str, Any]:
    """The tiny protocol at the recipe's own depth, with its own finalists and as few trainings as there can be."""
    fewer = merge(tiny, {"protocol": {"learning_rates": [1e-2], "final_tokens": 128}})
    stages = {name: value for name, value in fewer["protocol"].items() if name not in ("finalists", "best")}
    return {**fewer, "protocol": stages, "space": {"dimensions": fewer["space"]["dimensions"]}}


@pytest.mark.slow
def test_given_backbones_are_stacked_tuned_trained_and_tested(
    changes: dict[str, Any], cache: Path, tmp_path: Path
) -> None:
    said: list[str] = []

    def hear(kind: str, facts: dict[str, Any]) -> None:
        said.extend([facts["scaling"]] if kind == "architecture" else [])

    run = evolve(
        "backbone.deep",
        start=[MOTIF],
        overrides=changes,
        store=tmp_path,
        listener=hear,
        cache_folder=cache,
    )
    with run.archive:
        assert list(stage_runs(run)) == ["baselines", "tuning", "training"]
        assert [text.partition(":")[0] for text in said] == ["4 LIVs stacked to 16"]
        record = read_protocol(run)
        assert [row.name for row in record.rows] == ["transformer++", "striped-mamba", "star-1"]
        found = run.space.parse(record.rows[-1].genome)
        assert len(found) == 16
        assert run.space.canonical(run.space.motif(found)) == run.space.canonical(run.space.parse(MOTIF))
        assert [row.seeds for row in record.rows] == [2, 2, 2]
        assert all(row.test is not None and row.test.count == 2 for row in record.rows)
        assert sum(event.type == TEST for event in run.events()) == 1
        assert not any("random" in sentence or "Only" in sentence for sentence in record.sentences)
        (event,) = [event for event in run.events() if event.type == PLAN]
        planned = {stage["stage"]: stage["trainings"] for stage in event.payload["stages"]}
        assert planned == {"baselines": 2, "tuning": 1, "training": 6, "test": 6}
        assert run.best().id == record.rows[-1].trainings[0]
        with pytest.raises(UsageError, match="searches nothing"):
            run.searched()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "kind", "words"),
    [((), UsageError, "--start"), (("11114 91111 11114 51111 11111",), GenomeError, "multiples of 5")],
)
def test_what_cannot_be_stacked_is_refused_before_anything_is_recorded(
    changes: dict[str, Any], cache: Path, tmp_path: Path, start: tuple[str, ...], kind: type[Exception], words: str
) -> None:
    store = tmp_path / "runs"
    with pytest.raises(kind, match=words):
        evolve("backbone.deep", start=start, overrides=changes, store=store, cache_folder=cache)
    assert not store.exists()


@pytest.mark.parametrize("size", ["quick", "full", "paper"])
def test_every_size_has_twice_the_depth_of_its_searches(size: str) -> None:
    settings, searched = (resolve(name, size=size, overrides={}) for name in ("backbone.deep", "backbone.cache"))
    assert isinstance(settings, ProtocolSettings)
    assert settings.space.depth == 2 * searched.space.depth  # type: ignore[attr-defined]
    assert [work.stage for work in works_of(settings)] == ["baselines", "tuning", "training", "test"]


def test_the_paper_is_the_papers() -> None:
    """STAR, Table 5.2 and Table A.3."""
    settings = resolve("backbone.deep", size="paper", overrides={})
    assert isinstance(settings, ProtocolSettings)
    training = settings.evaluation.training
    step = training.batch_size * settings.evaluation.language.context_length
    assert (settings.space.depth, settings.space.dimensions.width) == (48, 2048)
    assert step == 786_432
    assert training.batch_size % training.parts == 0
    assert settings.protocol.final_tokens == 50_000 * step
    assert settings.protocol.final_warmup == 3500 / 50_000


def test_protocols_of_before_are_written_as_they_were() -> None:
    settings = resolve("backbone.cache", overrides={})
    assert "finalists_from" not in settings.model_dump(mode="json")["protocol"]
