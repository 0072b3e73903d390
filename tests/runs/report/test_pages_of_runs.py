"""The report of a run: every arc of every drawn genome, the bigram model, and who is ahead of whom."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from typing import Any

import numpy as np
import pytest

from evodevo.backbone.draw import drawn, mixes_in_each_half
from evodevo.backbone.problem import BackboneProblem
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import SHARED_ROLES, Dimensions
from evodevo.runs.archive import Run
from evodevo.runs.report.front import bigram
from evodevo.runs.report.page import notes
from evodevo.runs.report.view import stability
from evodevo.settings import validate

Arcs = Counter[tuple[int, int]]
CONNECTED = {"space": {"depth": 20, "dimensions": {"width": 64}, "classes": ["SA-1", "Rec-1", "GMemless"]}}


def arcs_by_hand(space: BackboneSpace, genome: tuple[tuple[int, ...], ...]) -> tuple[Arcs, Arcs]:
    """(feature arcs, featurizer arcs) as (owner, borrower), read off the integers by docs/spec/star.md#sharing.

    A feature strategy s shares the groups of the bits of s - 1; featurizer strategy 2 ties all weights. The owner of a
    group is the first LIV of the same class and index that shares it. Who takes a feature has no use for its weights.
    """
    features: Arcs = Counter()
    weights: Arcs = Counter()

    def shares(position: int, role: str) -> bool:
        number, _, _, _, strategy = genome[position]
        bit = SHARED_ROLES[space.all_classes[number].spec.structure].index(role)
        return bool((strategy - 1) >> bit & 1)

    for position, (number, tie, tying, group, _) in enumerate(genome):
        roles = list(space.all_classes[number].spec.groups)
        taken: dict[str, int] = {}
        for role in roles:
            for before in range(position):
                same = genome[before][0] == number and genome[before][3] == group
                if same and shares(before, role) and shares(position, role):
                    taken[role] = before
                    break
        tied: set[int] = set()
        for role in roles:
            if role in taken or tying != 2:
                continue
            for before in range(position):
                other = genome[before]
                # Whoever takes the feature itself keeps no weights of it.
                if other[0] == number and other[1] == tie and other[2] == 2 and owns(space, genome, before, role):
                    tied.add(before)
                    break
        features.update((owner, position) for owner in set(taken.values()))
        weights.update((owner, position) for owner in tied)
    return features, weights


def owns(space: BackboneSpace, genome: tuple[tuple[int, ...], ...], position: int, role: str) -> bool:
    number, _, _, group, strategy = genome[position]
    bit = SHARED_ROLES[space.all_classes[number].spec.structure].index(role)
    if not (strategy - 1) >> bit & 1:
        return True
    return not any(one[0] == number and one[3] == group and (one[4] - 1) >> bit & 1 for one in genome[:position])


def drawings(html: str) -> dict[str, tuple[Arcs, Arcs]]:
    """Genome text -> arcs of its drawing, as a browser would find them."""
    found = {}
    for chunk in html.split('<div class="genome">')[1:]:
        chunk = chunk.split('<div class="genome">')[0]
        text = re.search(r"<code>(.*?)</code>", chunk, re.DOTALL)
        assert text is not None
        kinds: dict[str, Arcs] = {"feature": Counter(), "featurizer": Counter()}
        for path in re.findall(r"<path\b[^>]*>", chunk):
            attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', path))
            for kind, arcs in kinds.items():
                if f"{kind}-arc" in attributes["class"].split():
                    arcs[int(attributes["data-owner"]), int(attributes["data-borrower"])] += 1
        found[unescape(text[1])] = (kinds["feature"], kinds["featurizer"])
    return found


def test_each_arc_of_each_drawn_genome_is_one_arc_of_the_page(recorded: Any) -> None:
    rows = {str(number): {0: {"quality": 1.0 + number, "cache": 100.0 - number}} for number in range(6)}
    run = recorded(rows, drawn={"plain": {0: {"quality": 9.0, "cache": 999.0}}}, **CONNECTED)
    found = drawings(run.slice.report(run))
    shown = [*run.front(), *run.baselines()]
    assert len(run.front()) == 6
    # Shown are canonical genomes: in them no integer is without effect.
    texts = {one.id: run.space.print(run.space.canonical(one.genome)) for one in shown}
    assert set(found) == set(texts.values())
    total = 0
    for one in shown:
        expected = arcs_by_hand(run.space, one.genome)
        assert found[texts[one.id]] == expected, one.text
        total += sum(sum(kind.values()) for kind in expected)
    assert total > 20, "there is much to draw"


def test_arcs_are_those_of_the_integers_and_extra_residuals_are_drawn() -> None:
    space = BackboneSpace(validate(BackboneSettings, CONNECTED["space"], what="space"))
    for seed in range(40):
        genome = space.sample(np.random.default_rng(seed))
        found = drawn(space.plan(genome), genome)
        features, weights = arcs_by_hand(space, genome)
        assert Counter((arc.owner, arc.borrower) for arc in found.feature_arcs) == features
        assert Counter((arc.owner, arc.borrower) for arc in found.featurizer_arcs) == weights
    space = BackboneSpace(BackboneSettings(depth=6, residuals=True, dimensions=Dimensions(width=64)))
    for seed in range(20):
        genome = space.sample(np.random.default_rng(seed))
        found = drawn(space.plan(genome), genome)
        expected = Counter()
        for position, segment in enumerate(genome):
            before = [place for place in range(position) if genome[place][5] == segment[5]]
            if before:
                expected[before[-1], position] += 1
        assert Counter((arc.owner, arc.borrower) for arc in found.residual_arcs) == expected


# The bigram model


def test_the_report_says_who_beats_the_bigram_model(run: Run, small: Any) -> None:
    problem = BackboneProblem(run.space, run.settings.evaluation, cache_folder=small.text.parent / "cache" / "evodevo")
    reference = bigram(run)
    assert reference == problem.describe()["count_models"]["byte_bigram"]
    page = run.slice.report(run)
    rows = page[page.index('id="reference"') :].split("</section>")[0].split("<tr>")[2:]
    shown = [*run.baselines(), *run.front()]
    assert len(rows) == len(shown)
    for row, one in zip(rows, shown, strict=True):
        value = one.fact["bits_per_byte"]
        assert one.name in row
        assert f"{reference - value:+.3f}" in row
        assert ("does not beat it" in row) == (value >= reference)
        assert ("no token mixer in one half" in row) == (not mixes_in_each_half(one.plan))


def test_a_mixer_in_each_half_is_asked_for() -> None:
    space = BackboneSpace(BackboneSettings(depth=4, dimensions=Dimensions(width=64)))
    numbers = {row.name: number for number, row in space.all_classes.items()}
    mixer, memoryless = numbers["SA-1"], next(n for n, row in space.classes.items() if not row.spec.mixes_tokens)

    def judged(*classes: int) -> bool:
        return mixes_in_each_half(
            space.plan(tuple((one, place + 1, 1, place + 1, 1) for place, one in enumerate(classes)))
        )

    assert judged(mixer, memoryless, memoryless, mixer)
    assert judged(memoryless, mixer, mixer, memoryless)
    assert not judged(mixer, mixer, memoryless, memoryless)
    assert not judged(memoryless, memoryless, mixer, mixer)


# Words


@pytest.mark.slow
def test_the_notes_say_who_is_ahead_of_whom_and_how_sure_that_is(recorded: Any) -> None:
    def seeds(*values: tuple[float, float]) -> dict[int, dict[str, float]]:
        return {number: {"quality": a, "cache": b} for number, (a, b) in enumerate(values)}

    plain = {"plain": seeds((2.5, 500.0), (2.4, 500.0), (2.6, 500.0))}
    sure = recorded({"one": seeds((2.0, 400.0), (2.0, 400.0), (2.1, 400.0))}, drawn=plain)
    assert re.search(
        "born by sample.*is ahead of plain on validation, on fresh seeds, beyond the spread", notes(sure)[0]
    )
    unsure = recorded({"one": seeds((2.0, 400.0), (2.0, 400.0), (2.5, 400.0))}, drawn=plain)
    assert notes(unsure)[0].endswith(
        "is ahead of plain on validation, on fresh seeds (quality: within the spread over seeds)."
    )
    own = recorded({"one": seeds((2.0, 400.0))}, drawn=plain)
    assert notes(own)[0].endswith("on the search's own seed (quality: one seed, its spread is unknown).")
    none = recorded({"one": seeds((2.0, 600.0))}, drawn=plain)
    assert notes(none) == ["No individual of the front is ahead of a baseline on validation."]


@pytest.mark.parametrize(
    ("losses", "reason", "state"),
    [
        ([3.0, 2.9, 2.8, 2.7], "", "stable"),
        ([9.0, 3.0, 2.0, 2.5], "", "stable"),
        ([9.0, 3.0, 2.0, 2.7], "", "unstable"),
        ([2.0, *[2.0] * 10, 2.7, *[2.0] * 10], "", "unstable"),
        ([2.5, 5.0, *[3.0] * 30], "", "stable"),
        ([3.0], "diverged", "diverged"),
        ([], "nan", "diverged"),
        ([3.0], "timeout", "failed"),
        ([], "", "stable"),
    ],
)
def test_what_a_stable_training_is(losses: list[float], reason: str, state: str) -> None:
    curve = [(float(place), loss) for place, loss in enumerate(losses)]
    assert stability(curve, reason) == state


def test_everything_of_a_run_is_in_its_report(run: Run) -> None:
    page = run.slice.report(run)
    shown = [*run.front(), *run.baselines()]
    assert drawings(page) == {one.text: arcs_by_hand(run.space, one.genome) for one in shown}
    for one in run.individuals():
        assert one.id[:8] in page
    fronts = page[page.index("Front and baselines") :].split("</table>")[0]
    assert all(one.name[:8] in fronts for one in shown)
    assert fronts.count("baseline, 2 seeds") == len(run.baselines()) == 2
    assert page.count('class="curve') == len(run.individuals())
    assert "(population; compare the paper" in page
    assert "overhead of the search" in page


def test_a_run_with_nothing_but_failures_has_a_report(recorded: Any) -> None:
    run = recorded({"a": {0: "crash"}, "b": {0: "timeout"}, "c": {}})
    page = run.slice.report(run)
    assert "crash" in page
    assert "timeout" in page
