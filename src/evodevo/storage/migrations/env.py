"""Alembic reads this file; ``upgrade`` hands it an open transaction."""

from alembic import context

from evodevo.storage.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    # SQLite can undo CREATE TABLE; a step that is killed half-way leaves the version before it.
    transactional_ddl=True,
)
context.run_migrations()
