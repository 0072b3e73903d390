"""All rows of an ablation: those of Table 3, and rows for router, losses and every part of growth; and their choice.

Source: docs/spec/architect_thyself.md#ablation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo.errors import UsageError, unknown_name
from evodevo.growth.ablation.row import BLOCKS, AblationRow
from evodevo.growth.ablation.table_3 import A, B, C, D

GATES = ("softmax", "entmax15", "entmax", "relu", "gumbel")


def _router(name: str, words: str, **changes: Any) -> AblationRow:
    return AblationRow(name, words, "more", "fused", words, zoo={"router": changes})


def _loss(term: str) -> AblationRow:
    words = f"no {term} loss" if term != "z" else "no z-loss"
    return AblationRow(f"loss_{term}_off", words, "more", "fused", words, zoo={"losses": {term: 0.0}})


def _growth(name: str, words: str, **changes: Any) -> AblationRow:
    return AblationRow(name, words, "more", "growing", words, grow=changes)


MORE = (
    _router("synergy_off", "no synergy", synergy="off"),
    _router("synergy_complement", "synergy of unlike modules", synergy="complement"),
    _router("contribution_off", "no bias by contribution", contribution=0.0),
    *(_router(f"gate_{kind}", f"gate {kind}", gate=kind) for kind in GATES),
    _router("keys_genotype", "keys from genotypes", keys="genotype"),
    _router("keys_predictor", "a predictor chooses", keys="predictor"),
    _router("router_mlp_gate", "gate by a small MLP", kind="mlp_gate"),
    _router("router_none", "plain mean, no weights in the router", kind="mean", identity=True),
    _router("top_k_off", "every module may count", top_k=1024),
    AblationRow("mode_vector", "modules read a vector", "more", "fused", "f cut into pieces", zoo={"mode": "vector"}),
    *(_loss(term) for term in ("load", "budget", "entropy", "orthogonality", "complexity", "z")),
    AblationRow(
        "loss_replay_off", "no loss on replayed samples", "more", "growing", "replayed samples have no weight",
        zoo={"losses": {"replay": 0.0}},
    ),
    _growth("replay_off", "no replay", replay={"capacity": 0}),
    _growth("distillation_off", "no distillation", prune={"distil_steps": 0}),
    AblationRow(
        "warm_up_off", "no warm-up of newborns", "more", "growing",
        "warm-ups last one step, at the common learning rate",
        shortest=True,
    ),
    _growth("bank_off", "no bank of pruned modules", prune={"bank": 0}),
    AblationRow("hybrid_off", "no hybrids", "more", "growing", "no hybrids", forbid=("hybridise",)),
    AblationRow("spawn_off", "no fresh modules", "more", "growing", "no fresh modules", forbid=("spawn",)),
    _growth("splice_insert", "grafts beside what was there", birth={"splice": "insert"}),
    *(
        _growth(f"inherit_{kind}", f"inheritance {kind}", birth={"inheritance": kind})
        for kind in ("split", "soft", "copy_noise")
    ),
    *(
        _growth(f"strategist_{name}", f"strategist {name}", strategist=name)
        for name in ("random", "heuristic", "reinforce", "meta_gradient", "reinforce_meta")
    ),
    *(_growth(f"reward_{kind}", f"reward {kind}", reward={"kind": kind}) for kind in ("absolute", "entropy")),
    *(
        _growth(f"prune_{rule}", f"prune rule {rule}", prune={"rule": rule})
        for rule in ("quantile", "threshold", "patience_usage", "patience_advantage")
    ),
    *(_growth(f"fitness_{kind}", f"fitness {kind}", fitness={"kind": kind}) for kind in ("usage_loss", "advantage")),
    _growth("impact_zero", "left-out modules say zero", fitness={"ablation": "zero"}),
)  # fmt: skip


ALL, TABLE_3 = "all", "table_3"
ROWS: tuple[AblationRow, ...] = (*A, *B, *C, *D, *MORE)


def names_of(wanted: str | Sequence[str]) -> list[str]:
    """Names one by one, of a sequence or of a text with commas."""
    return [name.strip() for name in wanted.split(",") if name.strip()] if isinstance(wanted, str) else list(wanted)


def chosen_rows(wanted: str | Sequence[str]) -> tuple[AblationRow, ...]:
    """The rows that are meant, in the order of the table.

    Args:
        wanted: ``all``, ``table_3`` (its 43), blocks and names of rows; a sequence, or commas between them.

    Raises:
        UsageError: nothing, or an unknown name.
    """
    names = names_of(wanted)
    known = [ALL, TABLE_3, *BLOCKS, *(row.name for row in ROWS)]
    for name in names:
        if name not in known:
            raise unknown_name("row of the ablation", name, known)
    if not names:
        raise UsageError("an ablation needs rows: all, table_3, A, B, C, D, more, or names of rows.")
    return tuple(
        row for row in ROWS if {ALL, row.block, row.name} & set(names) or (TABLE_3 in names and row.block != "more")
    )


def row_called(title: str, block: str) -> AblationRow | None:
    """The row of an arm, by its title and the first letter or word of its block; None for a base."""
    return next((row for row in ROWS if row.title == title and block.split(",")[0] == row.block), None)
