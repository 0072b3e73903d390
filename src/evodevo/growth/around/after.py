"""The network that edits around its modules lead to."""

from __future__ import annotations

from collections.abc import Iterable

from evodevo.growth.edit_spec import Edit
from evodevo.growth.growable import Growable


def surrounded(network: Growable, edits: Iterable[Edit]) -> Growable:
    """The network after those of the edits that are around its modules.

    Weights from before one of them do not fit, and are not kept.
    """
    for edit in edits:
        if edit.around is not None:
            network = network.changed_around(edit.action.operation, edit.around)
    return network
