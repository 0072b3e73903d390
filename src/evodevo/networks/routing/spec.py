"""The pool that a router reads and the choice of its connections at inference, as plain data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.settings import Settings

Pool = Literal["attention", "mean", "max", "last", "token", "prefix_mean"]
CAUSAL_POOLS = ("token", "prefix_mean")


class InferenceStructure(Settings):
    """The choice of the connections that count at inference (docs/spec/h_model.md#skipping).

    Attributes:
        mode: ``dense``; ``source_topk`` (the paper's: each source keeps its k strongest connections); ``target_topm``
            (the m hidden targets with the largest inflow are kept); ``threshold`` (c below it is 0); ``budget`` (the
            targets with the largest inflow until the FLOPs are spent).
        k, m, threshold, flops: parameters of the modes; ``flops`` per sample and forward, hidden layers only.
        outputs_count: connections to outputs count in k too (as printed; else outputs are always served).
    """

    mode: Literal["dense", "source_topk", "target_topm", "threshold", "budget"] = "dense"
    k: int = Field(default=2, ge=1, le=4096)
    m: int = Field(default=2, ge=1, le=4096)
    threshold: float = Field(default=0.1, ge=0, le=1)
    flops: float = Field(default=0.0, ge=0)
    outputs_count: bool = False
