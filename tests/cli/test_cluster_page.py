"""The first commands of docs/cluster.md: one flag changes where a search runs, and its record is the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evodevo.cli.application import run
from evodevo.storage import Store
from evodevo.testing.histories import Birth, difference, history, hypervolumes
from evodevo.testing.ray_cluster import RayCluster
from evodevo.testing.slurm_cluster import started
from evodevo.testing.stores import postgres

if TYPE_CHECKING:
    from ..conftest import Small

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
(_BLOCK,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8").split("\n## ")[0], re.M | re.S)
COMMANDS = [shlex.split(line) for line in _BLOCK.splitlines()]
FIRST, *OTHERS = COMMANDS


@contextmanager
def place(words: list[str], folder: Path) -> Iterator[list[str]]:
    """The words with an address of this machine, while what they name is there."""
    words = [{"8": "2", "/shared/blobs": str(folder / "blobs")}.get(word, word) for word in words]
    if "ray" in words:
        pytest.importorskip("ray")
        with RayCluster(nodes=3) as cluster:
            yield [cluster.address if word == "auto" else word for word in words]
    elif "slurm" in words:
        with started(nodes=3):
            yield words
    elif "--store" in words:
        if reason := postgres.reason_to_skip():
            pytest.skip(reason)
        with postgres.server() as server:
            yield [server.address(server.schema()) if word.startswith("postgresql:") else word for word in words]
    else:
        yield words


def record(words: list[str], small: Small, folder: Path) -> tuple[list[Birth], list[str]]:
    """History and hypervolumes of the search of a command."""
    with place(words, folder) as done:
        done += [] if "--store" in done else ["--store", str(folder / "runs")]
        done += [] if "--executor" in done else ["--executor", "processes"]  # the default, where a recipe is not small
        assert run([*done[1:], "--config", str(small.config), "--data", str(small.text)]) == 0
        with Store.open(done[done.index("--store") + 1]) as store:
            (found,) = store.runs()
            return history(store, found.id), hypervolumes(store, found.id)


@pytest.fixture(scope="module")
def first(small: Small, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Birth], list[str]]:
    return record(FIRST, small, tmp_path_factory.mktemp("first"))


@pytest.mark.parametrize("words", OTHERS, ids=[" ".join(words[4:]) or "processes" for words in OTHERS])
def test_one_flag_changes_where_a_search_runs(
    words: list[str], small: Small, tmp_path: Path, first: tuple[list[Birth], list[str]]
) -> None:
    ours = record(words, small, tmp_path)
    assert not difference(ours[0], first[0]), difference(ours[0], first[0])
    assert ours[1] == first[1]
