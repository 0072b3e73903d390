"""Hand-drawn backbones: the baselines of STAR, A.3, and StripedHyena, as lists of LIV class numbers."""

from __future__ import annotations

from collections.abc import Callable

from evodevo.errors import GenomeError

ATTENTION, MEMORYLESS, MAMBA, LONG_CONVOLUTION = 1, 9, 18, 20
STACKED = 24


def transformer(depth: int) -> list[int]:
    """Transformer++: SA-1 and GMemless in turn."""
    if depth < 2 or depth % 2:
        raise GenomeError(f"transformer++ has an even number of LIVs; {depth} were asked for.")
    return [ATTENTION, MEMORYLESS] * (depth // 2)


def striped_mamba(depth: int) -> list[int]:
    """Mamba and GMemless in turn, with attention at a quarter and at three quarters of the depth."""
    return _striped("striped-mamba", MAMBA, depth)


def striped_hyena(depth: int) -> list[int]:
    """As striped-mamba, with dense long convolutions in Mamba's place."""
    return _striped("striped-hyena", LONG_CONVOLUTION, depth)


def _striped(name: str, mixer: int, depth: int) -> list[int]:
    if depth < 8 or depth % 2 or (depth > STACKED and depth % STACKED):
        raise GenomeError(
            f"{name} has an even number of LIVs from 8 to {STACKED}, or a multiple of {STACKED}; "
            f"{depth} were asked for."
        )
    if depth > STACKED:
        return _striped(name, mixer, STACKED) * (depth // STACKED)
    # The paper's 24 LIVs have attention at 6 and 18, counted from 0: the first even slot at or after each quarter.
    stripes = [-(-quarter * depth // 4) for quarter in (1, 3)]
    stripes = [slot + slot % 2 for slot in stripes]
    return [(ATTENTION if slot in stripes else mixer) if slot % 2 == 0 else MEMORYLESS for slot in range(depth)]


NAMED_BACKBONES: dict[str, Callable[[int], list[int]]] = {
    "transformer++": transformer,
    "striped-mamba": striped_mamba,
    "striped-hyena": striped_hyena,
}
