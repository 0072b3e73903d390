"""A payload of a wrong shape is one error that names its row, also where somebody sealed it anew."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import StoreDamagedError
from evodevo.storage import Store
from evodevo.testing.multitask.systems import FIDELITY
from evodevo.testing.stores.sealing import seal_anew
from storage import test_seals, test_system_seals
from storage.test_seals import change

run_store = pytest.fixture(scope="module")(test_seals.whole.__wrapped__)  # type: ignore[attr-defined]
system_store = pytest.fixture(scope="module")(test_system_seals.whole.__wrapped__)  # type: ignore[attr-defined]

OBJECTS = {
    "run": ("settings", "versions"),
    "individual": ("genome_envelope", "details"),
    "evaluation": ("cost", "extra"),
    "event": ("payload",),
}


def random_json(rng: random.Random, depth: int = 2) -> Any:
    """Any JSON but an object."""
    kinds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randint(-(10**20), 10**20),
        lambda: rng.uniform(-1e300, 1e300),
        lambda: "".join(chr(rng.randrange(32, 0x2FF)) for _ in range(rng.randrange(9))),
    ]
    if depth:
        kinds.append(lambda: [random_json(rng, depth - 1) for _ in range(rng.randrange(3))])
    return rng.choice(kinds)()


def with_payload(whole: Path, folder: Path, table: str, column: str, value: Any) -> Path:
    """A copy of a store in which one payload is another, with seals as if evodevo had written it."""
    shutil.copytree(whole, folder)
    text = json.dumps(value).replace("'", "''")
    change(folder, f"UPDATE {table} SET {column} = '{text}' WHERE rowid = (SELECT max(rowid) FROM {table})")
    with Store.open(folder) as store, store._database.writing() as connection:
        seal_anew(connection)
    return folder


@pytest.mark.parametrize(("table", "column"), [(table, name) for table, names in OBJECTS.items() for name in names])
def test_another_shape_is_named_by_readers_and_by_check(
    run_store: Path, tmp_path: Path, table: str, column: str
) -> None:
    rng = random.Random(f"{table}.{column}")
    for number in range(4):
        value = random_json(rng)
        folder = with_payload(run_store, tmp_path / str(number), table, column, value)
        with Store.open(folder, "ro") as store:
            with pytest.raises(StoreDamagedError, match=f"{table} [0-9a-z]+ holds"):
                test_seals.read_all(store)
            assert any(" holds " in problem.message for problem in store.check(deep=True).problems), value


@pytest.mark.parametrize("value", [{"a": 1}, [1], [None], "x", 7, None])
def test_what_a_cycle_retains_is_a_list_of_names(system_store: Path, tmp_path: Path, value: Any) -> None:
    folder = with_payload(system_store, tmp_path / "runs", "cycle", "retained", value)
    with Store.open(folder, "ro") as store:
        with pytest.raises(StoreDamagedError, match=r"cycle [0-9]+ of r[0-9a-f]+ retains holds"):
            store.systems.moment(store.systems.systems()[0].id, FIDELITY, "agent.withdrawn")
        assert not store.check(deep=True).ok


def test_a_score_that_is_none_is_damage(run_store: Path, tmp_path: Path) -> None:
    shutil.copytree(run_store, tmp_path / "runs")
    change(tmp_path / "runs", "UPDATE score SET status = 'better' WHERE rowid = 1")
    with Store.open(tmp_path / "runs") as store, store._database.writing() as connection:
        seal_anew(connection)
    with Store.open(tmp_path / "runs", "ro") as store, pytest.raises(StoreDamagedError, match="score that is none"):
        store.evaluations()
