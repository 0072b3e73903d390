"""kill -9 inside a search with real training; what was finished stays, and the future is the same.

Every named point of a store: tests/storage/test_processes.py. A campaign of many more kills:
benchmarks/faults/kill.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evodevo.testing.crash_sessions import Kill, Victim, compare

pytestmark = pytest.mark.slow

# One search is killed again and again and then ends. ``count`` is within one session; the session of a worker's death
# goes on by itself, so that it stands last.
KILLS = (
    Kill("coordinator", "after_individuals", 2),
    Kill("both", "after_blob_temporary", 3),
    Kill("coordinator", "before_generation_event", 1),
    Kill("worker", "progress", 5),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "sleeps"]
    path.write_text("\n".join(" ".join(words[(n * n + k * k) % len(words)] for k in range(9)) for n in range(500)))
    return path


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, data: Path, cache: Path) -> Victim:
    victim = Victim(tmp_path_factory.mktemp("uninterrupted"), data, cache)
    report = victim.session()
    assert not report.killed
    assert report.recorded > 1 + 2 * 4
    return victim


def test_a_search_that_is_killed_again_and_again_has_the_same_future(
    tmp_path: Path, data: Path, cache: Path, uninterrupted: Victim
) -> None:
    victim = Victim(tmp_path, data, cache, workers=2)
    for kill in KILLS:
        report = victim.session(kill)
        assert report.killed == (kill.who != "worker"), kill
    compare(victim, uninterrupted)
    again = victim.session()
    assert again.recorded == 0, "nothing is left to do"
