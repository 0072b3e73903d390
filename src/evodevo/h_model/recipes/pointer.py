"""k-hop pointers: what a first pilot measured (docs/spec/h_model.md#the-pointer-pilot), where T decides."""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings, PaperTable
from evodevo.experiments.settings import ProbeSettings
from evodevo.h_model.aggregations.attention import AttentionAggregation
from evodevo.h_model.opponents import parameter_matched
from evodevo.h_model.recipes.variants import AT_THE_END, evaluation, h_model, learning_rates, opponents, stack
from evodevo.h_model.spec import HModelStructure, paper
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size

PILOT = PaperTable(
    source="our first pilot: 6 nodes, 1-4 hops, d = 64, 1,400 steps of 64, AdamW 1e-3, untuned",
    columns=("model", "blocks", "parameters", "accuracy, seeds 0 / 1 / 2"),
    rows=(
        ("transformer, 3 layers (matched to H = 2)", "3", "106k", ".837 / .839 / .835; .940 at lr 3e-3"),
        ("the same, as long as the H-Model (3,700 steps)", "3", "106k", ".994"),
        ("transformer, 17 layers (compute-matched to H = 4, T = 4)", "17", "575k", ".910"),
        ("Universal Transformer, 4 blocks x 4", "17", "174k", ".886"),
        ("H-Model H = 2, T = 4, as printed", "9", "107k", "1.000 / 1.000 / 0.999"),
        ("H-Model H = 2, T = 4, constant c = 0.5", "9", "107k", ".920 / .910"),
        ("H-Model H = 2, T = 4, input-independent", "9", "107k", ".925 / .925"),
        ("H-Model H = 4, T = 4, with inflow gate", "17", "175k", "1.000"),
    ),
    caveats=(
        "One toy task, one to three seeds, hardly any tuning; words, routers and learning-rate schedules are not ours.",
        "At equal wall time the transformer gets there too: what is claimed is fewer samples, not speed.",
    ),
)


def pointer(size: Size) -> ExperimentSettings:
    """H-Models of 2 layers run 4 times, against everything else."""
    full = size == "full"
    structure = HModelStructure(
        stream="paper", hidden=(TransformerLayer(),) * 2, iterations=4, output_blocks=0, router=AT_THE_END
    )
    arms = [h_model(structure), *opponents(structure, size)]
    if full:
        arms += [
            h_model(paper(structure), "H-Model as printed"),
            h_model(structure.model_copy(update={"aggregation": AttentionAggregation()}), "H-Model, attention"),
            *(
                h_model(
                    structure.model_copy(update={"hidden": (TransformerLayer(),) * h, "iterations": t}),
                    "H-Model, other sizes",
                    cell={"H": float(h), "T": float(t)},
                )
                for h, t in ((2, 2), (4, 2), (4, 4), (8, 4))
            ),
            stack(
                parameter_matched(structure),
                "Tr(I+H+O), 3 times as long",
                training={"budget": {"steps": 12_000}},
            ),
        ]
    return ExperimentSettings(
        experiment=Comparison(
            title="k-hop pointers",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
            paper=(PILOT,),
        ),
        evaluation=evaluation(
            size,
            "pointer",
            steps=4000 if full else 2000,
            probes=(
                ProbeSettings(name="top-m 1", inference=InferenceStructure(mode="target_topm", m=1)),
                ProbeSettings(name="T = 8", iterations=8),
                ProbeSettings(name="alpha 0.1", alpha=0.1),
            ),
        ),
    )


POINTER = Recipe(
    "h_model.pointer", "k-hop pointers: H-Models against transformers, with controls", ("train",), by_size(pointer)
)
