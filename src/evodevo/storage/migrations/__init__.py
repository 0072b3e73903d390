"""Versions of the database schema: detection, and migration to the current one.

Alembic runs the steps, in one transaction; it is imported only where there is a step to run. To add a version: change
``schema.py``, add ``versions/v0002_what.py`` (revision "0002", ``EVODEVO`` = first release with it), set HEAD.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from evodevo.errors import StoreDamagedError, StoreVersionError
from evodevo.storage import seals
from evodevo.storage.schema import APPLICATION_ID, VERSION_TABLE

HEAD = "0004"
UNSEALED = {"0002": frozenset(seals.KINDS), "0003": seals.OF_SYSTEMS}
"""Earlier versions that are still read, without a migration -> the kinds of rows that have no seals in them."""


def current(connection: Connection) -> str | None:
    """The version of the open database; None for an empty one.

    Raises:
        StoreVersionError: A newer evodevo wrote the file; the message has its version.
        StoreDamagedError: The database is no evodevo store.
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    marked = not _in_file(connection) or connection.exec_driver_sql("PRAGMA application_id").scalar() == APPLICATION_ID
    if not marked or not {VERSION_TABLE, "property"} <= tables:
        raise StoreDamagedError("this database is not an evodevo store; name another place with --store.")
    version = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if not (isinstance(version, str) and version.isdigit()):
        raise StoreDamagedError(f"the store has the version {version!r}, which no evodevo wrote.")
    if int(version) > int(HEAD):
        needed = connection.execute(text("SELECT value FROM property WHERE key = 'evodevo'")).scalar()
        raise StoreVersionError(
            f"this store has schema {version}; this evodevo reads up to {HEAD}. "
            f"It needs evodevo {needed} or newer: pip install 'evodevo>={needed}'."
        )
    return version


def upgrade(connection: Connection, target: str = HEAD) -> None:
    """Migrate the database to a version, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    # A percent sign in the path would be read as an interpolation of the configuration file.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)
    if _in_file(connection):
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")


def _in_file(connection: Connection) -> bool:
    """Whether the database is a file with a header of its own."""
    return connection.dialect.name == "sqlite"
