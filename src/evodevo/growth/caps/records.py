"""Records of falls of a cap: plain data, kept with their events."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from evodevo.growth.races.records import RaceRecord
from evodevo.growth.resources import number_words
from evodevo.settings import Settings


class SmallerNetwork(Settings):
    """A network under the cap that was looked at.

    Attributes:
        modules: Ids of the modules that stay in it.
        before: Loss in nats right after the removal, before any step; None where it is not finite.
        losses: Loss in nats after each rung of the race in which it took part; None where it could not be trained.
        steps: Number of its steps in the race.
    """

    modules: tuple[str, ...]
    before: float | None
    losses: tuple[float | None, ...] = ()
    steps: int = Field(default=0, ge=0)

    @property
    def loss(self) -> float | None:
        """The last loss that is known of it."""
        return (self.before, *self.losses)[-1]


class FallRecord(RaceRecord):
    """One fall of a cap.

    Attributes:
        limits: The limits in force from here on, by name.
        excess: Cap that the network exceeded, and by what; empty where it was under all of them already.
        networks: Smaller networks that were looked at, in the order in which they were.
        left_out: Number of networks under the cap that were not looked at.
        chosen: Ids of the modules of the network that goes on; empty where nothing had to go.
    """

    limits: dict[str, float]
    excess: str = ""
    networks: tuple[SmallerNetwork, ...] = ()
    left_out: int = Field(default=0, ge=0)
    chosen: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why the modules that went did so, with the losses of the best networks, in nats."""
        if len(self.networks) < 2:
            return f"{self.excess}; no other smaller network fits"
        known = [
            (network.modules != self.chosen, -len(network.losses), network.loss, " + ".join(network.modules))
            for network in self.networks
            if network.loss is not None
        ]
        how = "right after the removal" if self.instead else "after a race"
        losses = "; ".join(f"{name} {loss:.4f}" for _, _, loss, name in sorted(known)[:SHOWN])
        more = f" and {len(self.networks) - SHOWN} more" if len(self.networks) > SHOWN else ""
        return f"{self.excess}; loss {how}: {losses}{more}"

    def told(self, gone: Sequence[str]) -> str:
        """``the cap falls to 1,000 flops: mlp-1, cnn-1 gone; 3 networks raced``.

        Args:
            gone: Ids of the modules that went.
        """
        limits = ", ".join(f"{number_words(value)} {name}" for name, value in self.limits.items())
        raced = sum(bool(network.losses) for network in self.networks)
        how = f"; {raced} networks raced" if raced else ""
        return f"the cap falls to {limits}: {', '.join(gone)} gone{how}" if gone else f"the cap falls to {limits}"


SHOWN = 3
"""Networks whose losses the note on an edit has; the record has them all."""
