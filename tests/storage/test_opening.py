"""Making, recognising, migrating: old and new versions, folders, modes, file systems."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from evodevo.errors import ExitCode, NotFoundError, StoreDamagedError, StoreVersionError, UsageError
from evodevo.storage import Evaluation, Store, migrations, opening
from evodevo.storage.dialects.sqlite import SQLiteDatabase as Database
from evodevo.storage.dialects.sqlite import open_file, open_memory
from evodevo.storage.filesystems import filesystem_type, is_network
from evodevo.storage.schema import APPLICATION_ID, VERSION_TABLE, metadata
from evodevo.testing.storages import FIDELITY, grown, new_run
from storage.coordinator import make
from storage.forks import forked


def _schema(database: Database) -> dict[str, str]:
    with database.reading() as connection:
        rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        return {name: " ".join(sql.split()) for name, sql in rows if VERSION_TABLE not in name}


def test_the_migrations_lead_to_the_schema(tmp_path: Path) -> None:
    migrated, direct = open_file(tmp_path / "store.db", mode="rwc"), open_memory()
    with migrated.writing() as connection:
        migrations.upgrade(connection)
    with direct.writing() as connection:
        metadata.create_all(connection)
    assert _schema(migrated) == _schema(direct)
    with migrated.reading() as connection:
        assert migrations.current(connection) == migrations.HEAD
    migrated.close()
    direct.close()


def test_a_migration_that_is_stopped_leaves_the_version_before_it(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stopped(database: Database) -> None:
        with database.writing() as connection:
            migrations.upgrade(connection)
            raise Stop

    database = open_file(tmp_path / "store.db", mode="rwc")
    with pytest.raises(Stop):
        stopped(database)
    with database.reading() as connection:
        assert migrations.current(connection) is None
    database.close()
    with Store.open(tmp_path) as store:
        assert store.runs() == []


def test_a_new_store_is_for_its_owner_only_and_safe_by_its_pragmas(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a" / "runs") as store:
        new_run(store)
        store.blobs.put_bytes(b"x")
        folders = [tmp_path / "a/runs", *(path for path in (tmp_path / "a/runs").rglob("*") if path.is_dir())]
        assert len(folders) == 5
        assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
        with store._database.driver() as driver:
            values = {
                name: driver.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "busy_timeout")
            }
            assert driver.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    assert values == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "busy_timeout": 30_000,
    }


def test_a_store_of_a_newer_evodevo_is_refused_with_the_version_it_needs(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        new_run(store)
        with store._database.writing() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0007'"))
            connection.execute(text("UPDATE property SET value = '3.2.1' WHERE key = 'evodevo'"))
    before = (tmp_path / "store.db").read_bytes()
    for mode in ("rw", "ro"):
        with pytest.raises(StoreVersionError, match=r"evodevo>=3\.2\.1") as caught:
            Store.open(tmp_path, mode)  # type: ignore[arg-type]
        assert caught.value.exit_code == ExitCode.USAGE
    assert (tmp_path / "store.db").read_bytes() == before


def test_a_version_that_nobody_wrote_is_damage(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store._database.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'x'"))
    with pytest.raises(StoreDamagedError, match="'x'"):
        Store.open(tmp_path)


def test_an_older_store_is_copied_before_it_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path) as store:
        run_id = new_run(store)
    head = migrations.HEAD
    monkeypatch.setattr(migrations, "HEAD", "0006")
    seen = []

    def upgrade(connection: object, target: str = "") -> None:
        seen.append([path.name for path in (tmp_path / "backups").iterdir()])

    monkeypatch.setattr(migrations, "upgrade", upgrade)
    with pytest.raises(UsageError, match="evodevo repair"):
        Store.open(tmp_path, "ro")
    Store.open(tmp_path).close()
    Store.open(tmp_path).close()
    assert [sorted(names) for names in seen] == [[f"{head}-1.db"], [f"{head}-1.db", f"{head}-2.db"]]
    monkeypatch.undo()
    copy = tmp_path / "copy"
    copy.mkdir()
    (tmp_path / f"backups/{head}-1.db").rename(copy / "store.db")
    with Store.open(copy, "ro") as store:
        assert store.run(run_id).seed == 7


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.execute("CREATE TABLE friends (name)")
    connection.commit()
    connection.close()
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises(StoreDamagedError, match="not an evodevo store"):
        Store.open(tmp_path)
    assert (tmp_path / "store.db").read_bytes() == before


def test_what_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no store at"):
        Store.open(tmp_path / "none", "ro")
    with pytest.raises(NotFoundError, match="no store at"):
        Store.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="a store is a folder"):
        Store.open(tmp_path / "file")
    with pytest.raises(UsageError, match="rw or ro"):
        Store.open(tmp_path, "w")  # type: ignore[arg-type]


def test_an_empty_database_without_blobs_is_an_interrupted_creation(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with pytest.raises(NotFoundError, match="no runs yet"):
        Store.open(tmp_path, "ro")
    with Store.open(tmp_path) as store:
        new_run(store)


def test_a_folder_with_a_strange_name_is_only_a_name(tmp_path: Path) -> None:
    for name in ("a b", "100%", "what?mode=ro#x", "größe", "'quoted'"):
        with Store.open(tmp_path / name) as store:
            new_run(store)
        with Store.open(tmp_path / name, "ro") as store:
            assert len(store.runs()) == 1
        assert (tmp_path / name / "store.db").is_file()


def test_processes_that_make_one_store_at_once_agree(tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(forked(make, tmp_path / "runs")) for _ in range(4)]
        assert [process.end() for process in processes] == [(0, "")] * 4
    with Store.open(tmp_path / "runs", "ro") as store:
        assert len(store.runs()) == 4


def test_reading_changes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        lease, (one, *_) = grown(store)
        store.finish_evaluation(lease, Evaluation(one.id, FIDELITY, 0, blobs={"w": store.blobs.put_bytes(b"w")}))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with Store.open(tmp_path, "ro") as store:
        assert store.check(deep=True).ok
        for write in (lambda: store.create_run("e", "r", {}, 0), lambda: store.acquire(lease.run_id), store.gc):
            with pytest.raises(UsageError, match="reading only"):
                write()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "-shm" not in path.name}
    assert {path: data for path, data in after.items() if data} == {path: data for path, data in before.items() if data}


def test_a_disk_that_is_mounted_for_reading_can_be_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a disk")
    try:
        with Store.open(disk / "runs") as store:
            new_run(store)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with Store.open(disk / "runs", "ro") as store:
            assert len(store.runs()) == 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# File systems

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sda /home/local xfs rw 0 0
user@host: /mnt/a\\040b fuse.sshfs rw 0 0
/dev/sdb /mnt/ntfs fuseblk rw 0 0
tmpfs /stacked tmpfs rw 0 0
//server/share /stacked cifs rw 0 0
odd line
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/var/runs", "ext4", False),
        ("/home/me/runs", "nfs4", True),
        ("/home", "nfs4", True),
        ("/homely", "ext4", False),
        ("/home/local/me", "xfs", False),
        ("/mnt/a b/runs", "fuse.sshfs", True),
        ("/mnt/ntfs/runs", "fuseblk", False),
        ("/stacked/runs", "cifs", True),
    ],
)
def test_the_nearest_mount_decides(path: str, kind: str, network: bool) -> None:
    assert filesystem_type(Path(path), MOUNTS) == kind
    assert is_network(Path(path), MOUNTS) is network


def test_this_folder_lies_on_a_file_system(tmp_path: Path) -> None:
    assert filesystem_type(tmp_path) != ""


def test_on_a_network_file_system_there_is_no_wal_but_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        new_run(store)  # a WAL store that was moved there
    monkeypatch.setattr(opening, "is_network", lambda path: True)
    with Store.open(tmp_path) as store:
        with store._database.driver() as driver:
            assert driver.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        run_id = new_run(store)
        (warning,) = [event for event in store.events(run_id) if event.type == "store.warning"]
        assert "network" in warning.payload["message"]
        lease, _ = grown(store)
        assert store.check(deep=True).ok
        store.release(lease)
