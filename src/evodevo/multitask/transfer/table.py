"""The table of probes of an agent: measured once, recorded with its run, and read by its draws of parents.

Source: docs/spec/munet.md#probes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import Field

from evodevo.errors import StoreDamagedError, UsageError
from evodevo.multitask.agent import PublishedPath, SystemView
from evodevo.multitask.paths.kinds import can_read
from evodevo.settings import Settings, validate
from evodevo.storage import Lease, Store
from evodevo.storage.systems.base import AgentRow

TRANSFER = "agent.transfer"
"""Type of the event that holds an agent's table."""
MOST_PROBED = 16
FEWEST = 2
"""Paths of which one can be preferred; a single one is not probed."""


class TransferRow(Settings):
    """One probed path.

    Attributes:
        path: its name, ``agent/number``.
        loss: log-loss of a linear classifier on what it represents, in nats, on samples that the classifier was not
            fitted to.
        accuracy: its accuracy on the same samples, 0 to 1.
        width: numbers of a representation.
        seconds: wall time of representations and classifier; for display.
    """

    path: str
    loss: float = Field(ge=0)
    accuracy: float = Field(ge=0, le=1)
    width: int = Field(ge=1)
    seconds: float = Field(ge=0)


class TransferTable(Settings):
    """The probes of an agent.

    Attributes:
        view: publications that it could see, up to this seq.
        samples: number of training samples.
        prior: log-loss of the frequencies of the classes, in nats: what a path must be below to be of use.
        rows: the probed paths, best first.
        failed: why there are none; empty where there are some.
        cpu_seconds: CPU time of all of it, in seconds; None where it was not recorded.
    """

    view: int = Field(ge=0)
    samples: int = Field(default=0, ge=0)
    prior: float = Field(default=0.0, ge=0)
    rows: tuple[TransferRow, ...] = ()
    failed: str = ""
    cpu_seconds: float | None = Field(default=None, ge=0, exclude_if=lambda value: value is None)

    @property
    def losses(self) -> dict[str, float]:
        """Path -> log-loss, in nats."""
        return {row.path: row.loss for row in self.rows}

    @property
    def losses_of_agents(self) -> dict[str, float]:
        """Agent -> smallest log-loss of its paths, in nats."""
        found: dict[str, float] = {}
        for row in self.rows:
            agent = row.path.rpartition("/")[0]
            found[agent] = min(row.loss, found.get(agent, row.loss))
        return found


@dataclass(frozen=True)
class Probed:
    """A path that may be probed, and how near its task is."""

    offer: PublishedPath
    root: bool
    common: float


def record(store: Store, lease: Lease, agent: AgentRow, table: TransferTable) -> None:
    """Record the table of an agent."""
    store.add_event(lease, TRANSFER, agent.id, table.model_dump(mode="json"))


def recorded(store: Store, agent_id: str) -> TransferTable | None:
    """The table of an agent; None where nothing was probed.

    Raises:
        StoreDamagedError: It is not what evodevo writes.
    """
    events = store.events(agent_id, type=TRANSFER)
    if not events:
        return None
    try:
        return validate(TransferTable, events[0].payload, what="a table of probes")
    except UsageError as error:
        raise StoreDamagedError(
            f"the probes of run {agent_id} are damaged: {error} Next: evodevo store check."
        ) from None


def candidates(
    view: SystemView, agent: str, class_names: Sequence[str], modalities: Collection[str]
) -> list[PublishedPath]:
    """The paths that are probed: all of others in view, at most 16; roots first, then those of the most common classes.

    Args:
        view: What the agent may build on.
        agent: Name of the agent, whose own paths are not probed.
        class_names: Names of its classes.
        modalities: Modalities of its samples; paths that do not read them as they are, are not probed.
    """
    wanted = set(class_names)

    def common(name: str) -> float:
        names = set(view.agents[name].settings.get("class_names", ()))
        return len(wanted & names) / len(wanted | names) if wanted | names else 0.0

    found = [
        Probed(offer, bool(view.agents[name].settings.get("root")), common(name))
        for name, offer in view.offers.items()
        if name != agent and can_read(offer.path, modalities)
    ]
    latest = list(reversed(found))  # first among equals
    nearest = sorted(latest, key=lambda one: (not one.root, -one.common))
    return [one.offer for one in nearest[:MOST_PROBED]]
