"""Motifs of a recorded search, on its page and in its record."""

from __future__ import annotations

import json
from typing import Any

from evodevo.backbone.motifs.reading import populations, search_motifs
from evodevo.runs.archive import Archive


def test_a_real_search_has_its_motifs_on_its_page(small: Any) -> None:
    with Archive(small.store) as archive:
        run = archive.run(small.run)
        found = search_motifs(run)
        assert found is not None
        closed = run.generations()
        assert found.generation == len(closed) - 1 == 1
        assert list(found.connections) == [0, 1]
        living = populations(run)[1]
        assert {one.id for one in living} == set(closed[-1]["population"])
        assert found.record.genomes == len(living)
        document = json.loads(json.dumps(found.to_json()))
        assert [row["generation"] for row in document["connections"]] == [0, 1]
        for headings, rows in found.tables(3):
            assert 0 < len(rows) <= 3
            assert all(len(row) == len(headings) for row in rows)
        html = run.slice.report(run)
        assert 'id="motifs"' in html
        assert found.record.classes
        assert " ".join(found.record.classes[0].classes) in html


def test_before_the_second_generation_nothing_evolved(small: Any, monkeypatch: Any) -> None:
    with Archive(small.store) as archive:
        run = archive.run(small.run)
        first = run.generations()[:1]
        monkeypatch.setattr(run, "generations", lambda: first)
        assert search_motifs(run) is None
        assert 'id="motifs"' not in run.slice.report(run)
