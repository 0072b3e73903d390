"""Parameters and work of one mixture of experts, without its norm; ``experts.Mixture`` builds exactly these.

Legend: L positions, d width, F hidden units, E experts, P slots of an expert.
"""

from __future__ import annotations

from evodevo.networks.mixtures.spec import EXPERTS_PER_TOKEN, MixtureSizes
from evodevo.operators.cost import Work


def mixture_parameters(sizes: MixtureSizes) -> int:
    """Gates E d (E P d of soft slots), what a style has beside them, and the experts' two maps with their biases."""
    width, hidden, experts = sizes.width, sizes.hidden, sizes.experts
    gates = experts * width * (sizes.slots if sizes.style == "soft_moe" else 1)
    gates += {"soft_moe": 1, "dyn_moe": experts}.get(sizes.style, 0)
    return gates + experts * (2 * width * hidden + hidden + width)


def mixture_work(sizes: MixtureSizes, length: int) -> Work:
    """Work on one sample of L = ``length`` positions; of ``dyn_moe`` as if every expert ran on every token."""
    width, hidden, experts = sizes.width, sizes.hidden, sizes.experts
    if sizes.style == "soft_moe":
        slots = experts * sizes.slots
        return Work(6 * length * slots * width + 4 * slots * width * hidden)
    seen = min(EXPERTS_PER_TOKEN.get(sizes.style, experts), experts)
    return Work(2 * length * experts * width + 4 * seen * length * width * hidden)
