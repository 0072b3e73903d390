"""Records of a shift: plain data, kept with its event."""

from __future__ import annotations

from pydantic import Field

from evodevo.growth.races.records import RaceRecord
from evodevo.settings import Settings


class ShiftedNetwork(Settings):
    """A network that raced at a shift.

    Attributes:
        name: Its difference from the network as it was: ``as it is``, ``with a cnn``, ``a cnn for mlp-1``,
            ``mlp-1 alone``.
        modules: Ids of its modules.
        losses: Loss in nats after each rung; None where it could not be trained.
        steps: Number of its steps in the race.
        expected: Loss in nats to which its fall leads, where that decided; None where it did not, or without a loss.
    """

    name: str
    modules: tuple[str, ...]
    losses: tuple[float | None, ...] = ()
    steps: int = Field(default=0, ge=0)
    expected: float | None = Field(default=None, exclude_if=lambda value: value is None)


class ShiftRecord(RaceRecord):
    """One shift.

    Attributes:
        new: What appeared, in words: ``the input text``, ``5 classes``.
        networks: Networks that raced.
        left_out: Number of networks for which the race had no room.
        refused: Reasons why networks could not be made, by their names.
        chosen: Name of the network that goes on.
    """

    new: str
    networks: tuple[ShiftedNetwork, ...] = ()
    left_out: int = Field(default=0, ge=0)
    refused: dict[str, str] = Field(default_factory=dict)
    chosen: str = "as it is"

    @property
    def reason(self) -> str:
        """Why modules came and went, with the losses of the best networks, in nats."""
        known = [
            (network.name != self.chosen, -len(network.losses), network.losses[-1], network.name)
            for network in self.networks
            if network.losses and network.losses[-1] is not None
        ]
        losses = "; ".join(f"{name} {loss:.4f}" for _, _, loss, name in sorted(known)[:SHOWN])
        more = f" and {len(self.networks) - SHOWN} more" if len(self.networks) > SHOWN else ""
        return f"{self.new} appeared; loss after a race: {losses}{more}"

    @property
    def told(self) -> str:
        """``the input text appeared; goes on: a cnn for mlp-1; 11 networks raced``."""
        how = f"; {len(self.networks)} networks raced" if self.networks else ""
        return f"{self.new} appeared; goes on: {self.chosen}{how}"


SHOWN = 3
"""Networks whose losses the note on an edit has; the record has them all."""
