"""Weights that are damaged or gone are named with their owner, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from evodevo.cli.application import run
from evodevo.errors import ExitCode, StoreDamagedError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.measure import measure
from evodevo.multitask.recorded import deciding
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.systems.base import ComponentRow
from evodevo.testing.multitask.paths import told
from fixtures.real_system import agents_of, run_real

ROOT = "VitTiny~root_model~random_init"


def damage(store: Store, part: ComponentRow, how: str) -> None:
    file = store.blobs.path(part.digest)
    file.chmod(0o600)
    if how == "gone":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(bytes(data))


def part_of(system: System, agent: str, role: str) -> ComponentRow:
    found = system.view().offers[agent].component(role)
    assert found is not None
    return found


@pytest.mark.slow
def test_a_component_that_cannot_be_read_is_named_before_anything_is_lost(real: System, tmp_path: Path) -> None:
    """The run ends with the exit code of damage; the child waits; with the weights back, all goes on."""
    store = real.store
    part = part_of(real, ROOT, "embedding")  # whoever runs next reads it
    file = store.blobs.path(part.digest)
    whole = file.read_bytes()
    before = len(store.systems.publications(real.row.id))
    for how in ("damaged", "gone"):
        damage(store, part, how)
        with pytest.raises(StoreDamagedError, match=rf"{part.id} \('embedding'\)") as caught:
            run_real(real, 2, tmp_path)
        assert caught.value.exit_code == ExitCode.STORE_DAMAGED
        assert ("evodevo repair" in str(caught.value)) == (how == "damaged")
        assert len(store.systems.publications(real.row.id)) == before
        problems = store.check(deep=True).problems
        assert any(part.digest in one.subject or part.id in one.subject for one in problems)
    file.write_bytes(whole)
    run_real(real, 2, tmp_path)
    assert store.check(deep=True).ok
    for agent in agents_of(real):
        for row in store.individuals(agent.id):
            result = deciding(store.systems.evaluations_of([row.id])[row.id])
            assert result is not None
            assert result.state == "done", "damage is no fault of a child"


@pytest.mark.slow
def test_after_repair_what_needs_lost_weights_fails_and_the_rest_goes_on(real: System, tmp_path: Path) -> None:
    store = real.store
    part = part_of(real, ROOT, "embedding")
    damage(store, part, "damaged")
    with pytest.raises(StoreDamagedError):
        run_real(real, 2, tmp_path)
    report = store.repair()
    assert part.digest in report.quarantined
    assert any(part.id in one.subject for one in report.remaining)
    users = real.view().locks[part.id]
    assert users == {ROOT, "VitTiny~parity"}, "the case is one where somebody does not use it"
    for name in users:
        real.withdraw(name)
    run_real(real, 3, tmp_path, only="VitTiny~digits")  # the cycle that had begun ends, then another one
    rows = store.individuals(real.agent("VitTiny~digits").id)
    results = [deciding(store.systems.evaluations_of([row.id])[row.id]) for row in rows]
    assert {None if one is None else one.reason for one in results} == {None, "damaged"}
    assert len(results) == 6
    assert store.check(deep=True).ok


@pytest.mark.slow
def test_what_was_lost_is_told_before_a_cycle_begins(real: System, tmp_path: Path) -> None:
    part = part_of(real, ROOT, "cls")
    damage(real.store, part, "gone")
    real.store.repair()
    before = real.store.systems.cycles(system_id=real.row.id)
    with pytest.raises(StoreDamagedError, match=rf"{part.id} are gone.*withdraw the tasks"):
        run_real(real, 2, tmp_path)
    assert real.store.systems.cycles(system_id=real.row.id) == before


@pytest.mark.slow
def test_a_damaged_component_stops_its_measurement(real: System, tmp_path: Path) -> None:
    best = real.best("digits")
    head = part_of(real, "VitTiny~digits", "head")
    damage(real.store, head, "damaged")
    with SerialExecutor() as executor, pytest.raises(StoreDamagedError, match=r"of VitTiny~digits/\d+|'head'"):
        measure(real, best, executor, cache=str(tmp_path / "cache"))
    assert not [one for one in real.store.systems.evaluations_of([best.id])[best.id] if one.fidelity == "test"]


@pytest.mark.slow
def test_damage_inside_a_multipath_model_names_the_path_it_is_of(real: System, tmp_path: Path) -> None:
    real.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10))
    norm = part_of(real, "VitTiny~parity", "encoder_norm")
    damage(real.store, norm, "gone")
    with pytest.raises(StoreDamagedError, match=r"VitTiny~parity/\d+ \('encoder_norm'\)"):
        run_real(real, 1, tmp_path, only="MultiVitTiny~digits")


@pytest.mark.slow
def test_a_user_is_told_what_is_damaged_and_nothing_else_is_lost(
    real: System, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = real.best("digits").components[-1]
    damage(real.store, part, "damaged")
    before = told(real)
    for words in (["--check"], []):
        assert run(["repair", *words, "--store", str(tmp_path / "runs")]) == ExitCode.STORE_DAMAGED
        said = "".join(capsys.readouterr())
        assert part.digest[:12] in said
    assert part.id in said, "what was lost with it is named by its owner"
    assert told(real) == before
