"""What somebody can do who changes rows and knows how seals are made: seal all anew."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from evodevo.storage.migrations.versions import v0003_seals, v0004_seals_of_systems
from evodevo.storage.schema import seal_table


def seal_anew(connection: Connection) -> None:
    """Replace all seals of a store by those of the rows that it holds now."""
    connection.execute(delete(seal_table))
    v0003_seals.seal(connection)
    v0004_seals_of_systems.seal(connection)
