"""The published results (Hospodarchuk, Tables 1 to 3), with caveats (docs/spec/h_model.md#experiments)."""

from __future__ import annotations

from evodevo.experiments.recipe import PaperTable

PROOFS = PaperTable(
    source="the paper's Table 1 (ProofWriter as language, d = 128, feed-forward 256, 5 epochs but for 'uc')",
    columns=("model", "layers (hidden)", "T", "accuracy", "loss"),
    rows=(
        ("transformer, to convergence", "4", "–", ".9998", ".001"),
        ("transformer", "6", "–", ".77", ".56"),
        ("H-Model, to convergence", "4 (2)", "2", ".9998", ".001"),
        ("H-Model", "6 (4)", "2", ".73", ".68"),
        ("H-Model", "6 (4)", "4", ".79", ".51"),
        ("H-Model", "6 (4)", "10", ".72", ".67"),
    ),
    caveats=(
        "Its theories are ProofWriter's, its accuracy is of tokens; ours are generated, and the answer alone counts.",
        (
            "Two rows ran to convergence and the others five epochs; learning rates, batches, tokenizer and seeds are "
            "not given. Tr4 is matched to 4 (2) in parameters, not in compute: an H-Model runs I + H T + O blocks."
        ),
    ),
)
LANGUAGES = PaperTable(
    source="the paper's Table 2 (six languages, d = 128)",
    columns=("model", "layers (hidden)", "T", "accuracy", "loss"),
    rows=(
        ("transformer", "1", "–", ".016", "10.22"),
        ("transformer", "6", "–", ".020", "10.22"),
        ("H-Model", "8 (6)", "1", ".743", ".97"),
        ("H-Model", "6 (4)", "4", ".956", ".40"),
    ),
    caveats=(
        "A loss of 10.22 is ln(27,447), the loss of guessing: the paper's transformers have learned nothing.",
        (
            "95.6 % of next tokens at this size are far above what natural text allows: either the last token steered "
            "earlier positions (measured here as 'leak'), or the task was another one. Do not aim for it."
        ),
    ),
)
OHSUMED = PaperTable(
    source="the paper's Table 3 (Ohsumed, layers of RoBERTa and MiniLM mixed)",
    columns=("model", "layers", "T", "train accuracy", "test accuracy"),
    rows=(
        ("transformer, from scratch", "1", "–", ".55", ".12"),
        ("transformer, from scratch", "12", "–", "did not converge", "–"),
        ("H-Model of pretrained layers", "10 (12)", "10", ".87", ".27"),
    ),
    caveats=(
        "A test accuracy of .27 beside .87 in training is memorised; no pretrained model alone is listed beside it.",
    ),
)
