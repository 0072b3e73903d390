"""The tables of multitask systems (docs/spec/munet.md#stored-system): agents, cycles, paths, components, publications.

A system is a run of kind "system", an agent a run of kind "agent", a path an individual of its agent's run. Leases,
ancestry, evaluations, events and blobs are therefore those of every run, in ``storage/schema.py``. Locks are not
stored: they are derived from the publications that a cycle may see.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Table,
    UniqueConstraint,
    text,
)

from evodevo.storage.schema import Long, Words, keep_for_ever, metadata, one_of

_OPEN = text("state = 'open'")

system_table = Table(
    "system",
    metadata,
    Column("run_id", Words, ForeignKey("run.id"), primary_key=True, nullable=False),
    Column("name", Words, nullable=False, unique=True),
)

agent_table = Table(
    "agent",
    metadata,
    Column("run_id", Words, ForeignKey("run.id"), primary_key=True, nullable=False),
    Column("system_id", Words, ForeignKey("system.run_id"), nullable=False),
    Column("name", Words, nullable=False),
    Column("class", Words, nullable=False),
    Column("task", Words, nullable=False),
    UniqueConstraint("system_id", "name"),
)

cycle_table = Table(
    "cycle",
    metadata,
    Column("agent_id", Words, ForeignKey("agent.run_id"), primary_key=True, nullable=False),
    Column("number", Long, CheckConstraint("number >= 0"), primary_key=True, nullable=False),
    # NULL where the schedule has no rounds ("free").
    Column("round", Long, CheckConstraint("round >= 0")),
    # The cycle's view has the publications with a seq up to this one; 0 = none.
    Column("view_seq", Long, CheckConstraint("view_seq >= 0"), nullable=False),
    Column("state", Words, one_of("state", "open", "closed"), nullable=False),
    # JSON list of the individuals that the agent retains beside the published one, written when the cycle closes.
    Column("retained", Words, nullable=False),
    Column("opened_seq", Long, ForeignKey("event.seq"), nullable=False),
    Column("closed_seq", Long, ForeignKey("event.seq")),
    CheckConstraint("(state = 'closed') = (closed_seq IS NOT NULL)"),
    # Of PostgreSQL the condition is set in ``dialects/postgres/schema.py``: named here, it would load that dialect for
    # every store.
    Index("cycle_open", "agent_id", unique=True, sqlite_where=_OPEN),
)

path_table = Table(
    "path",
    metadata,
    Column("individual_id", Words, ForeignKey("individual.id"), primary_key=True, nullable=False),
    Column("agent_id", Words, ForeignKey("agent.run_id"), nullable=False),
    Column("number", Long, CheckConstraint("number >= 0"), nullable=False),
    Column("cycle", Long, nullable=False),
    # The component numbers reserved for the path: [first, end). Those that it does not use are never reused.
    Column("first_component", Long, CheckConstraint("first_component >= 0"), nullable=False),
    Column("end_component", Long, nullable=False),
    UniqueConstraint("agent_id", "number"),
    ForeignKeyConstraint(["agent_id", "cycle"], ["cycle.agent_id", "cycle.number"]),
    CheckConstraint("end_component >= first_component"),
    Index("path_by_cycle", "agent_id", "cycle"),
)

component_table = Table(
    "component",
    metadata,
    Column("id", Words, primary_key=True, nullable=False),
    Column("agent_id", Words, ForeignKey("agent.run_id"), nullable=False),
    Column("number", Long, CheckConstraint("number >= 0"), nullable=False),
    Column("role", Words, nullable=False),
    Column("parameters", Long, CheckConstraint("parameters >= 0"), nullable=False),
    Column("digest", Words, ForeignKey("blob.digest"), nullable=False),
    # The path for which the component was made.
    Column("individual_id", Words, ForeignKey("path.individual_id"), nullable=False),
    UniqueConstraint("agent_id", "number"),
    Index("component_by_individual", "individual_id"),
)

component_use_table = Table(
    "component_use",
    metadata,
    Column("individual_id", Words, ForeignKey("path.individual_id"), primary_key=True, nullable=False),
    Column("place", Long, CheckConstraint("place >= 0"), primary_key=True, nullable=False),
    Column("role", Words, nullable=False),
    Column("component_id", Words, ForeignKey("component.id"), nullable=False),
    UniqueConstraint("individual_id", "role"),
    Index("component_use_by_component", "component_id"),
)

subpath_table = Table(
    "subpath",
    metadata,
    Column("individual_id", Words, ForeignKey("path.individual_id"), primary_key=True, nullable=False),
    Column("place", Long, CheckConstraint("place >= 0"), primary_key=True, nullable=False),
    Column("subpath_id", Words, ForeignKey("path.individual_id"), nullable=False),
    CheckConstraint("individual_id <> subpath_id"),
    Index("subpath_by_subpath", "subpath_id"),
)

publication_table = Table(
    "publication",
    metadata,
    Column("system_id", Words, ForeignKey("system.run_id"), primary_key=True, nullable=False),
    # Counted in the system from 1, not over the store, so that two runs of one schedule have equal numbers.
    Column("seq", Long, CheckConstraint("seq >= 1"), primary_key=True, nullable=False),
    Column("agent_id", Words, ForeignKey("agent.run_id"), nullable=False),
    Column("cycle", Long),
    # NULL withdraws the agent's earlier publications.
    Column("individual_id", Words, ForeignKey("path.individual_id")),
    Column("created_seq", Long, ForeignKey("event.seq"), nullable=False),
    ForeignKeyConstraint(["agent_id", "cycle"], ["cycle.agent_id", "cycle.number"]),
    Index("publication_by_agent", "agent_id", "seq"),
)

IMMUTABLE = ("system", "agent", "path", "component", "component_use", "subpath", "publication")
for _name in IMMUTABLE:
    for _change in ("DELETE", "UPDATE"):
        keep_for_ever(_name, _change)
keep_for_ever("cycle", "DELETE")
