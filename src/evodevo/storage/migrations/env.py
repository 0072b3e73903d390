"""Alembic's environment: runs the migrations in the open transaction that ``upgrade`` passes."""

from alembic import context

from evodevo.storage.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    # SQLite can undo CREATE TABLE, so that a migration killed half-way leaves the previous version.
    transactional_ddl=True,
)
context.run_migrations()
