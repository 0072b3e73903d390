"""What an ablation may take away: the 43 rows of Table 3 of Architect Thyself, and further ones (specification 2.7).

A row is data: what it changes of its base. Rows of Table 3 are called as they are there; what each switches is said
here, since the paper does not say it. ``recipes/module_zoo/ablation.py`` makes arms of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evodevo.errors import UsageError, unknown_name

Block = Literal["A", "B", "C", "D", "more"]
Base = Literal["nine", "fused", "growing"]
Side = Literal["image", "text"]
BLOCKS: Mapping[Block, str] = {
    "A": "Individual Module System",
    "B": "Feature Extraction Pipeline",
    "C": "Attention Mechanism",
    "D": "Dynamic System Configuration",
    "more": "Further switches",
}
BASES: Mapping[Base, str] = {
    "nine": "the nine modules of Table 3, which do not change",
    "fused": "the recipe's zoo, relative positions in its fusion, and F beside the image's own tokens",
    "growing": "the recipe's zoo, which grows while it trains",
}
ALL, TABLE_3 = "all", "table_3"


@dataclass(frozen=True)
class AblationRow:
    """One row.

    Attributes:
        name: for ``--rows``.
        title: of Table 3, or our own words.
        block: where it stands.
        base: what it is compared with.
        words: what it switches.
        zoo: changes as ``spaces.zoo_named.zoo_structure`` takes them.
        extractor: side -> changes of how every input of that side is read.
        grow: changes of the growth (``spaces.zoo_growth.GrowthSettings``), where the base grows.
        forbid: operations that growth may not use.
        rate: factor of the number of events.
        task: changes of the task's settings; those that the task does not have leave the row out.
        needs: sides that the task must have.
        random: begins with as many modules as the base, of random families with random attributes.
        shortest: warm-ups last one step, at the common learning rate.
    """

    name: str
    title: str
    block: Block
    base: Base
    words: str
    zoo: Mapping[str, Any] = field(default_factory=dict)
    extractor: Mapping[Side, Mapping[str, Any]] = field(default_factory=dict)
    grow: Mapping[str, Any] = field(default_factory=dict)
    forbid: tuple[str, ...] = ()
    rate: float = 1.0
    task: Mapping[str, Any] = field(default_factory=dict)
    needs: frozenset[Side] = frozenset()
    random: bool = False
    shortest: bool = False


BOTH: frozenset[Side] = frozenset({"image", "text"})
TEXT: frozenset[Side] = frozenset({"text"})
IMAGE: frozenset[Side] = frozenset({"image"})
NO_GROWTH: Mapping[str, Any] = {"strategist": "fixed", "events": {"count": 0}}
BIRTHS = ("grow", "spawn", "hybridise")


def _dropped(name: str, title: str) -> AblationRow:
    """Without one instance of the nine."""
    slug = "drop_" + name.replace("-", "_")
    return AblationRow(slug, title, "A", "nine", f"without {name}", zoo={"drop": [name]})


def _most(count: int) -> AblationRow:
    return AblationRow(
        f"most_{count}",
        f"Dynamic System ({count} modules)",
        "D",
        "growing",
        f"at most {count} modules, with the base's start or its first {count}",
        grow={"birth": {"most": count}},
    )


A = (
    _dropped("transformer-1", "Enhanced Transformer Block (Inst. 1)"),
    _dropped("transformer-2", "Enhanced Transformer Block (Inst. 2)"),
    _dropped("mlp-1", "Enhanced MLP Block (Inst. 1)"),
    _dropped("mlp-2", "Enhanced MLP Block (Inst. 2)"),
    _dropped("mlp-3", "Enhanced MLP Block (Inst. 3)"),
    _dropped("resnet1d-1", "ResNet Block (1D)"),
    _dropped("lstm-1", "LSTM Block (BiLSTM)"),
    _dropped("cnn-1", "CNN Block (Multi-kernel)"),
    _dropped("squeeze_excite-1", "Squeeze-Excite Block"),
    AblationRow(
        "same_config",
        "Module Config. Params Removed",
        "A",
        "nine",
        "all instances of a family have its default attributes",
        zoo={"same_config": True},
    ),
    AblationRow(
        "identity_qkv",
        "Module Interconnection Weights Removed",
        "A",
        "nine",
        "W_q, W_k and W_v of the router are the identity",
        zoo={"router": {"identity": True}},
    ),
)

B = (
    AblationRow(
        "text_off", "DistilBERT Text Features (512D)", "B", "fused", "no text is read",
        zoo={"without": ["text"]}, needs=BOTH,
    ),
    AblationRow(
        "image_off", "CLIP-ViT Image Features (512D)", "B", "fused", "no image is read",
        zoo={"without": ["image"]}, needs=BOTH,
    ),
    AblationRow(
        "text_raw", "Text Tokenization & Preproc.", "B", "fused", "texts are read as bytes, as they are written",
        task={"tokenizer": "bytes"}, needs=TEXT,
    ),
    AblationRow(
        "image_raw", "Image Preproc. & Norm.", "B", "fused", "pixels are read as they are stored, from 0 to 255",
        extractor={"image": {"normalise": False}}, needs=IMAGE,
    ),
    AblationRow(
        "text_positions_off", "Text Pos. Embeddings", "B", "fused", "no positions of words",
        extractor={"text": {"positions": False}}, needs=TEXT,
    ),
    AblationRow(
        "patches_frozen", "Vision Patch Embeddings", "B", "fused", "the patch embedding stays at its random start",
        extractor={"image": {"patches": "frozen"}}, needs=IMAGE,
    ),
    AblationRow(
        "align_off", "Cross-Modal Feature Alignment", "B", "fused", "no alignment loss, and nothing projected for it",
        zoo={"losses": {"align": 0.0}}, needs=BOTH,
    ),
    AblationRow(
        "fusion_norm_off", "Cross-Modal Layer Norm.", "B", "fused", "no layer norm behind the fusion",
        zoo={"fusion": {"norm": False}}, needs=BOTH,
    ),
    AblationRow(
        "fusion_concat_off", "Multimodal Feature Concat.", "B", "fused", "F without the image's own tokens beside it",
        zoo={"fusion": {"concat_query": False}}, needs=BOTH,
    ),
    AblationRow(
        "feature_dropout_off", "Feature Dropout Reg.", "B", "fused", "no dropout on embeddings",
        zoo={"dropout": 0.0},
    ),
)  # fmt: skip

C = (
    AblationRow(
        "fusion_one_head", "Multi-Head Cross-Modal Fusion", "C", "fused", "one head in the fusion",
        zoo={"fusion": {"heads": 1}}, needs=BOTH,
    ),
    AblationRow(
        "query_text", "Image-as-Query Cross-Attn.", "C", "fused", "the text asks, image keys and values answer",
        zoo={"fusion": {"query": "text"}}, needs=BOTH,
    ),
    AblationRow(
        "values_image", "Text-as-Key/Value Cross-Attn.", "C", "fused", "the image asks itself: its own keys and values",
        zoo={"fusion": {"values": "own"}}, needs=BOTH,
    ),
    AblationRow(
        "gate_half", "Learned Alignment Weights", "C", "fused", "the gate between the sides is one half",
        zoo={"fusion": {"gate": "half"}}, needs=BOTH,
    ),
    AblationRow(
        "text_attention_off", "Self-Attn. (Text Transformer)", "C", "fused", "blocks of the text: word by word",
        extractor={"text": {"self_attention": False}}, needs=TEXT,
    ),
    AblationRow(
        "image_attention_off", "Self-Attn. (Vision Transformer)", "C", "fused", "blocks of the image: patch by patch",
        extractor={"image": {"self_attention": False}}, needs=IMAGE,
    ),
    AblationRow(
        "fusion_no_attention", "Cross-Modal QKV Attention", "C", "fused", "both sides stand beside one another",
        zoo={"fusion": {"kind": "concat"}}, needs=BOTH,
    ),
    AblationRow(
        "router_mean", "Graph Attention Router", "C", "fused", "all modules count alike for every sample",
        zoo={"router": {"kind": "mean"}},
    ),
    AblationRow(
        "router_temperature_off", "Attention Temp. Scaling", "C", "fused", "the router's temperature is 1",
        zoo={"router": {"temperature": "one"}},
    ),
    AblationRow(
        "relative_positions_off", "Relative Position Encoding", "C", "fused", "no relative positions in the fusion",
        zoo={"fusion": {"relative_positions": False}}, needs=BOTH,
    ),
)  # fmt: skip

D = (
    AblationRow("full_dynamic", "Full Dynamic System (9 modules)", "D", "growing", "the base itself"),
    AblationRow("fixed", "Fixed Architecture (9 modules)", "D", "growing", "the start, without events", grow=NO_GROWTH),
    *(_most(count) for count in (6, 7, 8, 10, 12)),
    AblationRow(
        "random_modules", "No Evolution (Random Modules)", "D", "growing",
        "as many random modules as the base begins with, without events",
        grow=NO_GROWTH, random=True,
    ),
    AblationRow("no_pruning", "No Module Pruning", "D", "growing", "nobody goes", forbid=("prune",)),
    AblationRow("no_addition", "No Module Addition", "D", "growing", "nobody is born", forbid=BIRTHS),
    AblationRow(
        "conservative", "Conservative Evolution", "D", "growing",
        "events as every 5 epochs where the base has every 3, one action each, sigma 0.1",
        grow={"events": {"actions": 1}, "birth": {"mutation": 0.1}}, rate=3 / 5,
    ),
    AblationRow(
        "aggressive", "Aggressive Evolution", "D", "growing",
        "events as every epoch where the base has every 3, three actions each, sigma 0.4",
        grow={"events": {"actions": 3}, "birth": {"mutation": 0.4}}, rate=3.0,
    ),
)  # fmt: skip


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

ROWS: tuple[AblationRow, ...] = (*A, *B, *C, *D, *MORE)


def names_of(wanted: str | Sequence[str]) -> list[str]:
    """Names one by one, of a sequence or of a text with commas."""
    return [one.strip() for one in wanted.split(",") if one.strip()] if isinstance(wanted, str) else list(wanted)


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
        raise UsageError("an ablation wants rows: all, table_3, A, B, C, D, more, or names of rows.")
    return tuple(
        row for row in ROWS if {ALL, row.block, row.name} & set(names) or (TABLE_3 in names and row.block != "more")
    )


def row_called(title: str, block: str) -> AblationRow | None:
    """The row of an arm, by its title and the first letter or word of its block; None for a base."""
    return next((row for row in ROWS if row.title == title and block.split(",")[0] == row.block), None)
