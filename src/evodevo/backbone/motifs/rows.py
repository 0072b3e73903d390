"""Motifs as rows of tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.backbone.motifs.count import ClassMotif, SharingMotif

CLASS_HEADINGS = ("classes", "count", "by chance", "genomes", "per genome", "in generation 0", "position")
SHARING_HEADINGS = ("connection", "distance", *CLASS_HEADINGS[1:])
THINGS = {"feature": "features", "featurizer": "weights"}


def sequence(classes: Sequence[str]) -> str:
    """Classes that follow each other, for people."""
    return " ".join(classes)


def connection(motif: SharingMotif) -> str:
    """A sharing motif for people: what is shared, and from which to which LIV."""
    return f"{THINGS[motif.kind]} {motif.groups}: {sequence(motif.classes)}"


def class_rows(motifs: Sequence[ClassMotif]) -> list[list[str]]:
    """Rows under ``CLASS_HEADINGS``."""
    return [[sequence(one.classes), *_numbers(one)] for one in motifs]


def sharing_rows(motifs: Sequence[SharingMotif]) -> list[list[str]]:
    """Rows under ``SHARING_HEADINGS``."""
    return [[connection(one), str(one.distance), *_numbers(one)] for one in motifs]


def _numbers(one: ClassMotif | SharingMotif) -> list[str]:
    first = "" if one.first is None else f"{one.first:.2f}"
    chance, each = f"{one.expected:.2f}", f"{one.per_genome:.2f}"
    return [str(one.count), chance, str(one.genomes), each, first, f"{one.position:.2f}"]
