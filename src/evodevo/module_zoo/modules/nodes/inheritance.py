"""Correspondence between the tensors of a newborn node and those of its parent's node, axis by axis.

An axis of a tensor indexes either outputs or inputs. New entries along an output axis (a hidden unit) may be anything;
new entries along an input axis (its outgoing weights, a tap of a kernel) must be 0, so that the old units compute the
same as before.

A map holds for each index of the newborn the index of the parent, or a negative number for none: -1, or ``copy_of(k)``
for a new unit that may begin as a copy of unit k of the parent (Net2Net, Chen et al. 2016).
"""

from __future__ import annotations

from dataclasses import dataclass

Map = tuple[int, ...]


@dataclass(frozen=True)
class Match:
    """A tensor and its ancestor.

    Attributes:
        source: name of the ancestor among the tensors of its node.
        maps: one for each axis.
        reads: for each axis, whether it reads.
    """

    source: str
    maps: tuple[Map, ...]
    reads: tuple[bool, ...]


def copy_of(index: int) -> int:
    """The entry of a map for a new unit beside unit ``index`` of the parent; its own inverse."""
    return -2 - index


def shifted(entry: int, places: int) -> int:
    """An entry of a map whose parent's indices begin ``places`` later."""
    if entry >= 0:
        return entry + places
    return copy_of(copy_of(entry) + places) if entry < -1 else entry


def leading(count: int, theirs: int) -> Map:
    """The map between two axes whose first indices correspond; further ones are beside them in turn.

    Args:
        count: length of the newborn's axis.
        theirs: length of the parent's.
    """
    return tuple(index if index < theirs else copy_of(index % theirs) for index in range(count))


def centred(taps: int, theirs: int) -> Map:
    """The map between two kernels with a common middle."""
    shift = (taps - theirs) // 2
    return tuple(tap - shift if 0 <= tap - shift < theirs else -1 for tap in range(taps))


def repeated(block: Map, times: int, theirs: int, count: int) -> Map:
    """The map of an axis of equal blocks, such as gates or directions.

    Args:
        block: the map within one block.
        times: blocks of the newborn.
        theirs: length of a block of the parent.
        count: blocks of the parent.
    """
    return tuple(
        shifted(index, number * theirs) if number < count else -1 for number in range(times) for index in block
    )


def affine_matches(name: str, out: Map, read: Map, *, source: str | None = None) -> dict[str, Match]:
    """Weight and bias of a linear map.

    Args:
        name: name of the map in the newborn.
        out: map of its output axis.
        read: map of its input axis.
        source: its name in the parent; the same if left out.
    """
    source = name if source is None else source
    return {
        f"{name}.weight": Match(f"{source}.weight", (out, read), (False, True)),
        f"{name}.bias": Match(f"{source}.bias", (out,), (False,)),
    }
