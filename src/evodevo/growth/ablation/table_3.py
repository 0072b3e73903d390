"""The 43 rows of Table 3 of Architect Thyself, with the names of the table (docs/spec/architect_thyself.md#ablation).

The change of each row is defined here, since the paper leaves it open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.growth.ablation.row import AblationRow, Side

BOTH: frozenset[Side] = frozenset({"image", "text"})
TEXT: frozenset[Side] = frozenset({"text"})
IMAGE: frozenset[Side] = frozenset({"image"})
NO_GROWTH: Mapping[str, Any] = {"strategist": "fixed", "events": {"count": 0}}
BIRTHS = ("grow", "spawn", "hybridise")


def _dropped(name: str, title: str) -> AblationRow:
    """Without one instance of the nine."""
    slug = "drop_" + name.replace("-", "_")
    return AblationRow(slug, title, "A", "nine", f"without {name}", zoo={"drop": [name]})


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
        "query_text", "Image-as-Query Cross-Attn.", "C", "fused", "queries of the text, keys and values of the image",
        zoo={"fusion": {"query": "text"}}, needs=BOTH,
    ),
    AblationRow(
        "values_image", "Text-as-Key/Value Cross-Attn.", "C", "fused", "queries, keys and values of the image",
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
        "fusion_no_attention", "Cross-Modal QKV Attention", "C", "fused", "both sides are concatenated",
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
    *(
        AblationRow(
            f"most_{count}", f"Dynamic System ({count} modules)", "D", "growing",
            f"at most {count} modules, with the base's start or its first {count}",
            grow={"birth": {"most": count}},
        )
        for count in (6, 7, 8, 10, 12)
    ),
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
