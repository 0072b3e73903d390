"""Backbones at another depth: stacked or trimmed by their motif.

The motif of a backbone is its shortest beginning whose copies, put one after the other, are the whole backbone: the
same classes and, inside each copy, the same sharing; nothing is shared between copies. A backbone that repeats nothing
is its own motif. A backbone at another depth is as many copies of the motif as that depth holds, so depths that are no
multiple of the motif's length cannot be reached (motif scaling as in STAR, section 5.5 and Table 5.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from evodevo.backbone.genome import CLASS, FEATURE, FEATURIZER, MAX_LIVS, RESIDUAL, BackboneGenome
from evodevo.errors import GenomeError

Canonical = Callable[[BackboneGenome], BackboneGenome]


def repeat(motif: BackboneGenome, copies: int) -> BackboneGenome:
    """Copies of a backbone with fresh indices: what is shared is shared inside each copy alone."""
    counts = Counter(segment[CLASS] for segment in motif)
    rows = []
    for copy in range(copies):
        for segment in motif:
            row = list(segment)
            row[FEATURIZER] += copy * counts[row[CLASS]]
            row[FEATURE] += copy * counts[row[CLASS]]
            if len(row) > RESIDUAL:
                row[RESIDUAL] += copy * len(motif)
            rows.append(tuple(row))
    return tuple(rows)


def motif_of(genome: BackboneGenome, canonical: Canonical) -> BackboneGenome:
    """The shortest beginning whose copies are the whole backbone, in canonical form."""
    whole = canonical(genome)
    classes = [segment[CLASS] for segment in whole]
    for length in range(1, len(whole)):
        if len(whole) % length or classes != classes[:length] * (len(whole) // length):
            continue
        motif = canonical(whole[:length])
        if canonical(repeat(motif, len(whole) // length)) == whole:
            return motif
    return whole


def at_depth(genome: BackboneGenome, depth: int, canonical: Canonical) -> tuple[BackboneGenome, str]:
    """A backbone of ``depth`` LIVs made of the motif of this one, and a sentence that describes the change.

    At its own depth the backbone stays as it is, and the sentence is empty.

    Raises:
        GenomeError: a depth that the motif cannot reach; the message has the nearest that it can.
    """
    if depth == len(genome):
        return genome, ""
    motif = motif_of(genome, canonical)
    size = len(motif)
    if not 1 <= depth <= MAX_LIVS or depth % size:
        low = depth // size * size
        near = [reached for reached in (low, low + size) if 1 <= reached <= MAX_LIVS] or [MAX_LIVS // size * size]
        raise GenomeError(
            f"a backbone of {len(genome)} LIVs whose motif has {size} cannot have {depth}: "
            f"it reaches the multiples of {size} up to {MAX_LIVS}; the nearest: {', '.join(map(str, near))}."
        )
    copies = depth // size
    verb = "stacked" if depth > len(genome) else "trimmed"
    said = (
        f"{len(genome)} LIVs {verb} to {depth}: {copies} {'copy' if copies == 1 else 'copies'} of the motif of {size} "
        "LIVs, each with its own sharing"
    )
    return canonical(repeat(motif, copies)), said
