"""Searches that begin with given architectures: in the first generation, recorded, resumed, and refused in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import EvodevoError, GenomeError, NotFoundError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.runs.archive import Archive
from evodevo.runs.evolve import evolve, resume
from evodevo.search.problem import Goal
from evodevo.search.settings import StudySettings
from evodevo.search.start import Start
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.histories import evaluated_twice, history
from evodevo.testing.real_vector import RealVectorSpace, zdt1

MOTIF = "11114 91111 11114 51111"
OTHER = "71111 91111 51121 51121"


class Killed(BaseException):
    """As kill -9."""


@pytest.fixture
def settings(small: Any) -> dict[str, Any]:
    return {
        "space": {"dimensions": {"width": 16, "head_size": 4}},
        "evaluation": {
            "language": {"context_length": 16, "data": str(small.text)},
            "training": {"budget": {"tokens": 64}, "batch_size": 4},
            "validation_tokens": 64,
        },
        "study": {"population": 5, "generations": 2, "confirmations": 0},
        "execution": {"executor": "serial"},
    }


@pytest.mark.slow
def test_starts_come_first_and_a_killed_run_goes_on_to_the_same_end(
    copy: Path, small: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    settings["space"]["depth"] = 8  # asked for: the genome of four LIVs is stacked
    file = tmp_path / "mine.txt"
    file.write_text(f"# two of them\n{OTHER}\n{OTHER}\n")
    with Archive(copy) as archive:
        one = next(one for one in archive.run(small.run).individuals() if not one.parents)
    start = [MOTIF, str(file), "striped-hyena", one.id[:9]]
    heard: list[Any] = []

    def killed_at(count: int) -> Any:
        def listen(kind: str, facts: dict[str, Any]) -> None:
            if kind == "architecture":
                heard.append(facts)
            if kind == "evaluated" and (seen.append(kind) or len(seen) == count):  # type: ignore[func-returns-value]
                raise Killed

        seen: list[str] = []
        return listen

    with pytest.raises(Killed):
        evolve("backbone.demo", start=start, overrides=settings, store=copy, listener=killed_at(4))
    parts = resume("last", store=copy)
    whole = evolve("backbone.demo", start=start, overrides=settings, store=copy)
    assert history(parts.archive.store, parts.id) == history(whole.archive.store, whole.id)
    assert evaluated_twice(parts.archive.store, parts.id) == []

    first = [individual for individual in whole.individuals() if individual.generation == 0]
    assert [individual.operation for individual in first] == ["start"] * 4 + ["initial"]
    texts = [space_text(whole, individual) for individual in first]
    assert texts[0] == "11114 91111 12114 51111 13124 92121 14124 52121"
    assert texts[1] == whole.space.print(whole.space.parse(f"{OTHER} {OTHER}"))
    assert texts[2] == whole.space.print(whole.space.parse("striped-hyena@8"))
    assert whole.space.hash(first[3].genome) == whole.space.hash(one.genome)
    assert [individual.parents for individual in first[:4]] == [(), (), (), (one.id,)]
    assert [individual.row.details["source"] for individual in first[:4]] == [
        "the genome",
        f"the file {file}",
        "striped-hyena",
        f"individual {one.id}",
    ]
    said = "4 LIVs stacked to 8: 2 copies of the motif of 4 LIVs, each with its own sharing"
    assert heard == [{"source": "the genome", "scaling": said}]
    assert first[0].row.details["scaling"] == said
    ended = [row.individual_id for row in whole.archive.store.evaluations(whole.id)]
    own = [identity for identity in ended if identity not in {b.id for b in whole.baselines()}]
    assert own[:4] == [individual.id for individual in first[:4]]
    with Archive(copy) as archive:
        arrows = archive.store.lineage(first[3].id)
        assert arrows[0].parent_id == one.id, "the ancestry goes on in the run of the individual"
    for run in (parts, whole):
        run.archive.close()


def space_text(run: Any, individual: Any) -> str:
    return str(run.space.print(individual.genome))


EIGHT = "11111 91111 12121 92121 13131 93131 14141 94141"


@pytest.mark.parametrize(
    ("start", "kind", "words"),
    [
        (["zzz"], NotFoundError, "no genome, no known name"),
        (["mine.txt"], NotFoundError, "no genome, no known name"),
        (["transfromer++"], UsageError, "Did you mean 'transformer++'"),
        (["11111 91119 11111 91111"], GenomeError, "segment 2, integer 5"),
        ([MOTIF], GenomeError, "the search cannot begin with the genome: it has 4 LIVs, those of this search have 8"),
        (["transformer++@6"], GenomeError, "it has 6 LIVs"),
        (["transformer++", EIGHT], UsageError, "transformer++ and the genome are the same network"),
        (["striped-mamba", "striped-hyena", "transformer++", f"{EIGHT[:-5]}94144"], UsageError, "population of 3"),
        (["111111 911112 121213 921214"], GenomeError, "6 integers"),
    ],
)
def test_what_a_search_cannot_begin_with_is_said_and_nothing_recorded(
    start: list[str], kind: type[EvodevoError], words: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    overrides = {**settings, "study": settings["study"] | {"population": 3}}
    for there in (False, True):
        with pytest.raises(kind) as caught:
            evolve("backbone.demo", start=start, overrides=overrides, store=tmp_path / "runs")
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
        if there:
            with Archive(tmp_path / "runs") as archive:
                assert archive.runs() == []
        else:
            assert not (tmp_path / "runs").exists()
            Store.open(tmp_path / "runs").close()


def test_a_depth_that_the_motif_cannot_reach_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    settings["space"]["depth"] = 6
    with pytest.raises(GenomeError, match="reaches the multiples of 4 up to 512; the nearest: 4, 8"):
        evolve("backbone.demo", start=[MOTIF], overrides=settings, store=tmp_path / "runs")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text is empty"),
        ("# nothing\n", "the text is empty"),
        ("hello", "segment 1 is 'hello'"),
        ("{}", "holds no genome"),
        ("{", "the file"),
        ('{"genome": 3}', "holds no genome"),
        ('{"space": "h_model", "version": 1, "genes": []}', "is of space 'h_model'"),
        ('{"space": "backbone", "version": 1, "genes": [[1, 1]]}', "segment 1"),
    ],
)
def test_a_file_without_a_genome_is_named(text: str, words: str, settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(text)
    with pytest.raises(UsageError, match="the file") as caught:
        evolve("backbone.demo", start=[tmp_path / "mine"], overrides=settings, store=tmp_path / "runs")
    assert words in str(caught.value)


SPACE = RealVectorSpace(2)
GOALS = (Goal("f1"), Goal("f2"))


def starts(*points: tuple[float, float]) -> tuple[Start, ...]:
    return tuple(Start(genome=SPACE.to_json(point), source=str(point)) for point in points)


@pytest.mark.parametrize("mode", ["generational", "steady"])
@pytest.mark.parametrize("algorithm", ["nsga2", "regularized", "random"])
def test_every_algorithm_and_mode_begins_with_them(mode: Any, algorithm: str) -> None:
    given = starts((0.25, 0.5), (0.75, 0.5))
    plan = StudySettings(population=4, generations=2, mode=mode, algorithm=algorithm, start=given)
    result = Study(SPACE, zdt1, goals=GOALS, settings=plan, executor=SerialExecutor()).run()
    assert [member.genome for member in result.members[:2]] == [(0.25, 0.5), (0.75, 0.5)]
    assert [member.operation for member in result.members].count("start") == 2
    assert sum(member.generation == 0 for member in result.members) == 4
    without = Study(
        SPACE, zdt1, goals=GOALS, settings=plan.model_copy(update={"start": ()}), executor=SerialExecutor()
    ).run()
    assert [m.genome for m in result.members[2:4]] == [m.genome for m in without.members[:2]], "the others as before"


def test_settings_of_older_runs_begin_with_nothing() -> None:
    values = StudySettings().model_dump(mode="json")
    assert "start" not in values
    assert StudySettings.model_validate_json(json.dumps(values)).start == ()
