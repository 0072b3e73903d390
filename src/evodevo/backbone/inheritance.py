"""Which parts of a backbone answer to which of a parent: by the classes of LIVs, their places and what they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from evodevo.backbone.genome import LIVPlan

ENDS = ("embedding", "norm", "head")


def counterparts(child: Sequence[LIVPlan], parent: Sequence[LIVPlan], bank: Iterable[str]) -> dict[str, str]:
    """Part of a child's model -> part of its parent's, for parts that may be inherited.

    LIVs answer to each other where they have one class: place by place in backbones of one depth, else by the longest
    runs of equal classes. Weights of a feature group answer where both LIVs compute the group themselves. A featurizer
    that several LIVs of the child share is that of the LIV that names it; LIVs that share one in the parent and no
    longer in the child begin with equal copies of it, which changes no output.

    Args:
        child: Plan of the child.
        parent: Plan of the parent.
        bank: Names of the child's feature groups in its bank, as ``Wiring`` writes them.
    """
    return parts_of_matches(child, parent, bank, _matches(child, parent))


def parts_of_matches(
    child: Sequence[LIVPlan], parent: Sequence[LIVPlan], bank: Iterable[str], matches: Mapping[int, int]
) -> dict[str, str]:
    """As ``counterparts``, where it is known which LIV answers to which.

    Args:
        child: Plan of the child.
        parent: Plan of the parent.
        bank: Names of the child's feature groups in its bank.
        matches: Place of a LIV of the child -> place of its counterpart, of the same class.
    """
    parts = {name: name for name in ENDS}
    parts |= {f"blocks.{place}": f"blocks.{source}" for place, source in matches.items()}
    for entry in bank:
        number, _, group = entry.partition("_")
        if int(number) in matches:
            weights = parent[matches[int(number)]].weights
            # Behind the role is the name of the copy, where an operator has two.
            roles = [role for role in weights if group == role or group.startswith(f"{role}_")]
            source = weights[max(roles, key=len)] if roles else None
            if source is not None:
                parts[f"bank.{entry}"] = f"bank.{source}_{group}"
    return parts


def _matches(child: Sequence[LIVPlan], parent: Sequence[LIVPlan]) -> dict[int, int]:
    own, theirs = ([plan.row.number for plan in plans] for plans in (child, parent))
    if len(own) == len(theirs):
        return {place: place for place, (a, b) in enumerate(zip(own, theirs, strict=True)) if a == b}
    blocks = SequenceMatcher(a=own, b=theirs, autojunk=False).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}
