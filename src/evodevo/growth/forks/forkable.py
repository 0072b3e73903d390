"""What a network needs so that forks can train copies of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from evodevo.networks.base import Network
    from evodevo.training.surgery import Origins


class Forkable(Protocol):
    """A network that grows, as the sides of a fork see it."""

    @property
    def network(self) -> Network:
        """The network that is trained."""

    @property
    def progress(self) -> float:
        """Share of the training budget that is used up, 0 to 1."""

    def spare(self, moved: Callable[[Origins], None]) -> Self:
        """A network that equals this one, and shares nothing with it.

        Args:
            moved: Called with the origins of parameters where an edit of the copy moves them.
        """


Grown = TypeVar("Grown", bound=Forkable)
