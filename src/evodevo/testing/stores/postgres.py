"""A PostgreSQL server of a test session: a folder of its own, a socket in it, no password, nobody else.

It needs Debian's package ``postgresql`` (or any ``pg_ctl`` and ``initdb``). PostgreSQL refuses to run as root: there it
runs as the user ``postgres``. ``python -m evodevo.testing.stores.postgres`` writes what a server tells of a new store
into ``storage/dialects/postgres/schema.json``.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evodevo.testing.ports import free_port

USER = "evodevo"
START_SECONDS = 60.0


def binaries() -> Path | None:
    """The folder of ``pg_ctl`` and ``initdb`` of the newest version here; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    command = shutil.which("pg_ctl")
    return Path(command).resolve().parent if command else None


def reason_to_skip() -> str:
    """Why no server can be started here; empty = it can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed (evodevo[postgres])"
    if binaries() is None:
        return "there is no pg_ctl here (Debian: postgresql)"
    if os.getuid() == 0 and _other_user() is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres"
    return ""


def _other_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


class Server:
    """A server, in a folder that is deleted with it.

    Args:
        options: Settings of the server, ``name=value``.
        folder: Where its folder is made; None = in memory, where that is possible: what is tested is no disk.
    """

    def __init__(self, options: Sequence[str] = (), folder: Path | None = None) -> None:
        bin_folder = binaries()
        assert bin_folder is not None, reason_to_skip()
        self._bin = bin_folder
        shared = Path("/dev/shm")
        memory = shared if os.access(shared, os.W_OK) else Path("/tmp")
        # A socket's path has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=folder or memory))
        self.data = self.folder / "data"
        self.port = free_port()
        self._who: dict[str, Any] = {}
        if os.getuid() == 0:
            user = _other_user()
            assert user is not None, reason_to_skip()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._options = [
            *("fsync=off", "full_page_writes=off", "max_connections=150", "shared_buffers=16MB", "autovacuum=off"),
            *("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.folder}"),
            *(
                "max_wal_size=256MB",
                "max_wal_senders=0",
                "wal_level=minimal",
                "dynamic_shared_memory_type=mmap",
                *options,
            ),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            [
                str(self._bin / "initdb"),
                "-D",
                str(self.data),
                "-U",
                USER,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "-N",
            ]
        )
        self.start()

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, **self._who)
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = [str(self._bin / "postgres"), "-D", str(self.data)]
        for option in self._options:
            command += ["-c", option]
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **self._who
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Kill -9 the server and all of its processes, as a machine that stops."""
        assert self._process is not None, "it runs"
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (self._process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for pid in map(int, children):  # they hold the shared memory without which no other one can start
            while Path(f"/proc/{pid}").exists() and _state(pid) not in "ZX":
                time.sleep(0.005)

    def stop(self) -> None:
        """End it at once, and delete its folder."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, schema: str = "", *, tcp: bool = False) -> str:
        """The address of a schema, over the socket in the server's folder or over the loopback."""
        path = f"?options=-csearch_path%3D{schema}" if schema else "?"
        if tcp:
            return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres{path}"
        return f"postgresql://{USER}@/postgres{path}&host={self.folder}&port={self.port}".replace("?&", "?")

    def schema(self) -> str:
        """The name of a new, empty schema."""
        import psycopg

        name = "s" + secrets.token_hex(6)
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return name


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@contextmanager
def server(options: Sequence[str] = (), folder: Path | None = None) -> Iterator[Server]:
    """A server for the time of a block."""
    running = Server(options, folder)
    try:
        yield running
    finally:
        running.stop()


def description(address: str) -> dict[str, Any]:
    """What a server tells of the store in a database."""
    from evodevo.storage.addresses import ServerAddress
    from evodevo.storage.dialects.postgres import schema as postgres_schema
    from evodevo.storage.dialects.postgres.database import PostgresDatabase

    database = PostgresDatabase(ServerAddress(address), writable=False)
    try:
        with database.reading() as connection:
            return postgres_schema.describe(connection)
    finally:
        database.close()


def _write_expected() -> None:
    from evodevo.storage import migrations
    from evodevo.storage.addresses import ServerAddress
    from evodevo.storage.dialects.postgres import schema as postgres_schema
    from evodevo.storage.dialects.postgres.database import PostgresDatabase

    with server() as running:
        address = running.address(running.schema())
        database = PostgresDatabase(ServerAddress(address), writable=True)
        with database.transaction("BEGIN") as connection:
            migrations.upgrade(connection)
        database.close()
        rows = sorted(description(address).items())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in rows)
    postgres_schema.EXPECTED.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _write_expected()
