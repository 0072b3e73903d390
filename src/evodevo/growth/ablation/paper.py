"""The printed rows of Table 3 of Architect Thyself, and the reason why they are no target.

Source: docs/spec/architect_thyself.md#the-printed-tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SOURCE = "Architect Thyself, Table 3"
CAVEATS = (
    "The paper's numbers are of other data, towers and budgets, and its base grows; they are shown, not aimed at.",
    "Its base F1 of 0.8089 is the test F1 of its Table 2 and the validation F1 of its Table 3.",
    "Its rows of 10 and of 12 modules have identical AUC, accuracy and F1.",
    "Its column of FLOPs is the share of parameters, parameters / 18.7M, and was not measured.",
    "It does not say whether its fixed architecture was trained for as long as the dynamic one.",
)


class Printed(NamedTuple):
    """A row: AUC, accuracy in percent, F1, change of parameters or their number, episodes until it converged."""

    auc: float
    accuracy: float
    f1: float
    parameters: str
    episodes: str


BASE = Printed(0.8247, 80.1, 0.8089, "18.7M", "22")
"""Printed results of the base of every block."""

PRINTED: Mapping[str, Printed] = {
    "drop_transformer_1": Printed(0.7823, 76.9, 0.7858, "-2.1M", "24"),
    "drop_transformer_2": Printed(0.7634, 75.5, 0.7755, "-2.1M", "25"),
    "drop_mlp_1": Printed(0.8134, 79.3, 0.8033, "-1.8M", "23"),
    "drop_mlp_2": Printed(0.8089, 79.0, 0.8000, "-1.8M", "23"),
    "drop_mlp_3": Printed(0.8067, 78.8, 0.7978, "-1.8M", "23"),
    "drop_resnet1d_1": Printed(0.8134, 79.3, 0.8033, "-1.6M", "22"),
    "drop_lstm_1": Printed(0.8089, 79.0, 0.8000, "-2.0M", "23"),
    "drop_cnn_1": Printed(0.8167, 79.6, 0.8055, "-1.4M", "22"),
    "drop_squeeze_excite_1": Printed(0.8189, 79.8, 0.8066, "-0.8M", "22"),
    "same_config": Printed(0.7934, 77.7, 0.7900, "0.0M", "24"),
    "identity_qkv": Printed(0.7756, 76.4, 0.7822, "-0.6M", "25"),
    "text_off": Printed(0.7234, 72.5, 0.7522, "", "24"),
    "image_off": Printed(0.6823, 69.4, 0.7300, "", "25"),
    "text_raw": Printed(0.7623, 75.4, 0.7744, "", "25"),
    "image_raw": Printed(0.7389, 73.7, 0.7633, "", "24"),
    "text_positions_off": Printed(0.8089, 79.0, 0.8000, "", "23"),
    "patches_frozen": Printed(0.7934, 77.7, 0.7900, "", "24"),
    "align_off": Printed(0.7456, 74.2, 0.7655, "", "25"),
    "fusion_norm_off": Printed(0.8134, 79.3, 0.8033, "", "22"),
    "fusion_concat_off": Printed(0.7756, 76.4, 0.7822, "", "25"),
    "feature_dropout_off": Printed(0.8067, 78.8, 0.7978, "", "23"),
    "fusion_one_head": Printed(0.7156, 71.9, 0.7500, "", "25"),
    "query_text": Printed(0.7634, 75.5, 0.7755, "", "25"),
    "values_image": Printed(0.7823, 76.9, 0.7858, "", "24"),
    "gate_half": Printed(0.7756, 76.4, 0.7822, "", "24"),
    "text_attention_off": Printed(0.7623, 75.4, 0.7744, "", "25"),
    "image_attention_off": Printed(0.7534, 74.6, 0.7700, "", "25"),
    "fusion_no_attention": Printed(0.7289, 72.8, 0.7566, "", "25"),
    "router_mean": Printed(0.7889, 77.8, 0.7894, "", "23"),
    "router_temperature_off": Printed(0.8134, 79.3, 0.8033, "", "22"),
    "relative_positions_off": Printed(0.8198, 79.9, 0.8066, "", "22"),
    "full_dynamic": BASE,
    "fixed": Printed(0.7623, 74.8, 0.7456, "18.7M", "28"),
    "most_6": Printed(0.7956, 77.8, 0.7823, "14.6M", "25"),
    "most_7": Printed(0.8089, 79.1, 0.7967, "16.1M", "24"),
    "most_8": Printed(0.8198, 79.8, 0.8034, "17.4M", "23"),
    "most_10": Printed(0.8289, 80.5, 0.8134, "20.1M", "21"),
    "most_12": Printed(0.8289, 80.5, 0.8134, "24.3M", "20"),
    "random_modules": Printed(0.7456, 72.1, 0.7234, "18.7M", "did not"),
    "no_pruning": Printed(0.8089, 78.9, 0.7923, "18.7M", "26"),
    "no_addition": Printed(0.7834, 76.5, 0.7634, "18.7M", "29"),
    "conservative": Printed(0.8156, 79.6, 0.8021, "18.7M", "24"),
    "aggressive": Printed(0.8198, 79.9, 0.8056, "18.7M", "21"),
}
"""Name of a row -> what is printed."""
