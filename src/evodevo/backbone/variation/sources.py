"""What the LIVs of a draft have from others: the connections of its plan, read from labels and roles.

A mutation tries many changes of which it keeps one, and asks of each what it connects. This is answered without the
integers and the plan that are made of the one that is kept; that both agree is a tested law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evodevo.backbone.variation.draft import FEATURES, FEATURIZERS, RESIDUALS, Draft

Connection = tuple[str, int, int]
"""(kind, position of the owner, position of the user)."""
Link = tuple[str, str, int, int]
"""(kind, role, position, position): both LIVs use one tensor, or one set of weights, for the role."""
Borrowed = Mapping[str, int]
"""Role -> position of the LIV that it is from; roles that a LIV has of its own are left out."""

NOTHING: Borrowed = {}


@dataclass(frozen=True)
class DraftSources:
    """Where each LIV of a draft has something from.

    Attributes:
        borrowed: Kind -> what each LIV borrows. Features that are borrowed need no weights, so that no weights are
            named for them.
        residuals: Position of the LIV whose output is added to the input of each; None where there is none.
    """

    borrowed: Mapping[str, list[Borrowed]]
    residuals: list[int | None]

    @classmethod
    def of(cls, draft: Draft) -> DraftSources:
        """The sources of a draft: of the LIVs that share a role in one group, the earliest owns it."""
        features = _borrowed(draft, FEATURES, [NOTHING] * len(draft))
        return cls({FEATURES: features, FEATURIZERS: _borrowed(draft, FEATURIZERS, features)}, _residuals(draft))

    def arcs(self, kind: str) -> list[tuple[int, int]]:
        """(owner, user) of every connection of a kind, by user and then by owner."""
        if kind == RESIDUALS:
            return [(source, place) for place, source in enumerate(self.residuals) if source is not None]
        return [
            (owner, place)
            for place, taken in enumerate(self.borrowed[kind])
            if taken
            for owner in sorted(set(taken.values()))
        ]

    def connections(self) -> set[Connection]:
        """Every connection, extra residuals included."""
        return {(kind, *arc) for kind in (FEATURES, FEATURIZERS, RESIDUALS) for arc in self.arcs(kind)}

    def links(self) -> set[Link]:
        """All pairs of LIVs that use one tensor, one set of weights or one residual.

        Features that two LIVs share are made with one set of weights, so that these pairs share weights too.
        """
        users: dict[tuple[str, str, int], list[int]] = {}
        weights = self.borrowed[FEATURIZERS]
        for place, (features, own) in enumerate(zip(self.borrowed[FEATURES], weights, strict=True)):
            for role, source in features.items():
                users.setdefault((FEATURES, role, source), [source]).append(place)
                named = weights[source].get(role, source)
                users.setdefault((FEATURIZERS, role, named), [named]).append(place)
            for role, named in own.items():
                users.setdefault((FEATURIZERS, role, named), [named]).append(place)
        links = {
            (kind, role, one, other)
            for (kind, role, _), group in users.items()
            for at, one in enumerate(group)
            for other in group[at + 1 :]
        }
        return links | {(RESIDUALS, "", source, place) for source, place in self.arcs(RESIDUALS)}


def _borrowed(draft: Draft, kind: str, unneeded: list[Borrowed]) -> list[Borrowed]:
    """What each LIV borrows of a kind; roles that it does not need are no roles of a group."""
    owners: dict[tuple[int, int, str], int] = {}
    found: list[Borrowed] = []
    for place, roles in enumerate(draft.roles[kind]):
        taken: dict[str, int] = {}
        if roles:
            number, label, without = draft.numbers[place], draft.labels[kind][place], unneeded[place]
            for role in roles:
                if role not in without and (owner := owners.setdefault((number, label, role), place)) != place:
                    taken[role] = owner
        found.append(taken or NOTHING)
    return found


def _residuals(draft: Draft) -> list[int | None]:
    """A residual comes from the LIV before in its chain: where two LIVs read one, the second reads the first of them.

    Integers can say no more: equal values of a segment's last place are one chain.
    """
    chains: list[int] = []
    latest: dict[int, int] = {}
    found: list[int | None] = []
    for place, source in enumerate(draft.residuals):
        chain = place if source is None else chains[source]
        chains.append(chain)
        found.append(latest.get(chain))
        latest[chain] = place
    return found
