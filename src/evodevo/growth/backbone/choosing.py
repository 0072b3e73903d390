"""The choice of the edit that is tried at an event."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.backbone.spec import BackboneStructure
from evodevo.growth.backbone.records import BackboneEvent
from evodevo.growth.backbone.spec import Edit, GrowthPlan
from evodevo.randomness import generator

REFUSED = "it was refused, and nothing was kept since"
NOTHING_FITS = "no edit of the choices can be tried: {}"


def choose(
    plan: GrowthPlan,
    number: int,
    structure: BackboneStructure,
    window: int,
    *,
    whole: int,
    earlier: Sequence[BackboneEvent],
    seed: int,
) -> tuple[tuple[Edit, ...], str]:
    """The edit that is tried at an event, if any, and why there is none, in words.

    Args:
        plan: The plan.
        number: Number of the event, from 1.
        structure: The structure before.
        window: Tokens of a training window before.
        whole: Tokens of a window of the task.
        earlier: Events before.
        seed: Seed of the training, which with the number draws a random edit.
    """
    refused = _refused_since_the_last_kept(earlier)
    misfits = [REFUSED if edit in refused else edit.misfit(structure, window, whole) for edit in plan.choices]
    places = [place for place, reason in enumerate(misfits) if not reason]
    if not places:
        return (), NOTHING_FITS.format("; ".join(dict.fromkeys(reason.rstrip(".") for reason in misfits)))
    if plan.events.strategist == "random":
        place = places[int(generator(seed, number, "edit of an event").integers(len(places)))]
    else:
        last = {edit: event.number for event in earlier for edit in event.edits}
        place = min(places, key=lambda place: (last.get(plan.choices[place], 0), place))
    return (plan.choices[place],), ""


def _refused_since_the_last_kept(earlier: Sequence[BackboneEvent]) -> set[Edit]:
    """Edits that a fork refused on the network as it is now."""
    refused: set[Edit] = set()
    for event in earlier:
        refused = set() if event.kept and event.edits else refused | (set(event.edits) if event.fork else set())
    return refused
