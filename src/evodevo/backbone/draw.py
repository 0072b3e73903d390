"""Genomes in the form that the diagrams take: marks, arcs and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.backbone.diagrams.genome import Arc, LivMark, backbone_diagram
from evodevo.backbone.genome import LIVPlan, connections
from evodevo.operators.genome_text import print_segments
from evodevo.operators.spec import OperatorSpec

# The paper's letters, for arcs.
SYMBOLS = {
    "low_rank": {"query": "Q", "key": "K", "value": "V"},
    "semi_separable": {"value": "V", "gate": "Z", "decay": "A", "write": "B", "read": "C"},
    "delta": {"value": "V", "gate": "Z", "decay": "A", "write": "B", "read": "C"},
    "toeplitz": {"value": "V", "write": "B", "read": "C", "filter": "h"},
    "diagonal": {"gate": "gate", "up": "up"},
}


@dataclass(frozen=True)
class BackboneDrawing:
    """One genome, ready to draw. ``words`` are sentences on it, each a paragraph; ``text`` is its written form."""

    livs: Sequence[LivMark]
    feature_arcs: Sequence[Arc] = ()
    featurizer_arcs: Sequence[Arc] = ()
    residual_arcs: Sequence[Arc] = ()
    text: str = ""
    words: Sequence[str] = ()

    def svg(self, *, title: str, subtitle: str) -> str:
        """The drawing with its title."""
        return backbone_diagram(
            self.livs, self.feature_arcs, self.featurizer_arcs, self.residual_arcs, title=title, subtitle=subtitle
        )


def marks(plans: tuple[LIVPlan, ...], genome: tuple[tuple[int, ...], ...]) -> list[LivMark]:
    """One mark per LIV."""
    return [
        LivMark(
            name=plan.row.name,
            family=plan.spec.family,
            differential=plan.row.differential != "none",
            segment=print_segments([segment]),
            title=f"{plan.row.name} ({plan.spec.family}), operator genome {print_segments([plan.spec.operator])}",
        )
        for plan, segment in zip(plans, genome, strict=True)
    ]


def arcs(plans: tuple[LIVPlan, ...], kind: str) -> list[Arc]:
    """Arcs of one kind, "feature" or "featurizer", from owner to user."""
    verb = "reuses features of" if kind == "feature" else "shares weights with"
    return [
        Arc(owner, user, label(plans[user].spec, groups), f"LIV {user + 1} {verb} LIV {owner + 1}")
        for edge, owner, user, groups in connections(plans)
        if edge == kind
    ]


def residual_arcs(plans: tuple[LIVPlan, ...]) -> list[Arc]:
    """The extra residual connections of STAR A.7."""
    return [Arc(plan.residual, plan.position, "+") for plan in plans if plan.residual is not None]


def label(spec: OperatorSpec, groups: frozenset[str]) -> str:
    """The shared groups in the paper's letters; "all" for every group."""
    if groups == frozenset(spec.groups):
        return "all"
    symbols = SYMBOLS[spec.structure]
    return "".join(symbols[role] for role in spec.groups if role in groups)


def drawn(plans: tuple[LIVPlan, ...], genome: tuple[tuple[int, ...], ...]) -> BackboneDrawing:
    """A genome ready for a report."""
    return BackboneDrawing(
        livs=marks(plans, genome),
        feature_arcs=arcs(plans, "feature"),
        featurizer_arcs=arcs(plans, "featurizer"),
        residual_arcs=residual_arcs(plans),
        text=print_segments(genome),
        words=words(plans),
    )


def words(plans: tuple[LIVPlan, ...]) -> list[str]:
    """The genome in sentences: its LIVs, then what each borrows from which other."""
    counts = Counter(plan.row.name for plan in plans)
    made = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    sentences = [f"{len(plans)} LIVs: {made}."]
    for kind, owner, user, groups in connections(plans):
        what = label(plans[user].spec, groups)
        things = "features" if kind == "feature" else "weights"
        sentences.append(f"LIV {user + 1} ({plans[user].row.name}) uses the {things} {what} of LIV {owner + 1}.")
    sentences += [
        f"LIV {plan.position + 1} also reads the output of LIV {plan.residual + 1}."
        for plan in plans
        if plan.residual is not None
    ]
    return sentences


def mixes_in_each_half(plans: tuple[LIVPlan, ...]) -> bool:
    """Whether each half of the depth has a token mixer; only then is a bigram sure to be beaten."""
    half = len(plans) // 2
    return all(any(plan.spec.mixes_tokens for plan in part) for part in (plans[:half], plans[half:]))
