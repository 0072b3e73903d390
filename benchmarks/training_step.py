"""A whole training step of our baselines against the same networks in transformers.

Run: python benchmarks/training_step.py [--json PATH] [--width 256 --depth 12 --batch 4 --length 256]

Forward, backward and the step of the same AdamW (fused), in float32, with tied embeddings and one thread.
transformer++ meets LlamaForCausalLM with sdpa: same width, layers, heads, hidden size and vocabulary.
striped-mamba meets BambaForCausalLM, its nearest relative there: a decay per head and state (Mamba-2), SwiGLU after
every mixer, attention at any layers one names, all at our sizes (expand 1, N = 32). Its chunk size is its default and
the ones that suit it better here. Zamba2 shares one attention block and wraps it in adapters, and Jamba has Mamba-1
with a decay per channel and state, which scans token by token: neither can take the same shape.

The first line of each table is our model with the matrix products that torch takes by itself, the second with
oneDNN's, which evodevo takes on processors with AVX-512 (evodevo/operators/dense.py). A processor without it is
imitated by ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import BambaConfig, BambaForCausalLM, LlamaConfig, LlamaForCausalLM

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators import dense
from evodevo.operators.spec import Dimensions
from evodevo.testing.networks import small_backbone, text_batch
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings
from measuring import Report, Spread, arguments, ratio, take_turns

BAMBA_CHUNKS = (256, 64, 32)
STATE = 32
TORCH, ONE_DNN = "torch's products", "oneDNN's products"
LEAST_GAIN = 1.15
"""Gain in speed from which a second library of matrix products is worth having."""


def ours(name: str, width: int, depth: int, vocabulary: int) -> nn.Module:
    """A named backbone."""
    space = BackboneSpace(BackboneSettings(depth=depth, dimensions=Dimensions(width=width)))
    return small_backbone(space, space.named(name, depth), vocabulary, 0, tied=True)


def common(width: int, depth: int, vocabulary: int, length: int) -> dict[str, Any]:
    """What both peers share with our models. A layer of theirs is two LIVs of ours."""
    heads = width // Dimensions(width=width).head
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": round(8 * width / 3),
        "num_hidden_layers": depth // 2,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "max_position_embeddings": max(length, 2048),
        "tie_word_embeddings": True,
        "attn_implementation": "sdpa",
        "use_cache": False,
        "pad_token_id": None,
    }


def llama(width: int, depth: int, vocabulary: int, length: int) -> nn.Module:
    """transformers' Llama of the size of transformer++."""
    return LlamaForCausalLM(LlamaConfig(**common(width, depth, vocabulary, length)))


def bamba(width: int, depth: int, vocabulary: int, length: int, chunk: int, attention: list[int]) -> nn.Module:
    """transformers' Bamba of the shape of striped-mamba."""
    shape = common(width, depth, vocabulary, length)
    return BambaForCausalLM(
        BambaConfig(
            **shape,
            attn_layer_indices=attention,
            mamba_expand=1,
            mamba_n_heads=shape["num_attention_heads"],
            mamba_d_state=STATE,
            mamba_n_groups=1,
            mamba_chunk_size=chunk,
        )
    )


def step(model: nn.Module, windows: Tensor) -> Callable[[], None]:
    """One training step on these token windows (B, T+1): the mean cross-entropy of the next token."""
    optimizer = optimizers.build(model, OptimizerSettings())
    model.train()

    def run() -> None:
        if hasattr(model, "config"):
            logits = model(input_ids=windows[:, :-1]).logits
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())
        else:
            loss = model.loss(text_batch(windows))  # type: ignore[operator]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def with_products(run: Callable[[], None], one_dnn: bool) -> Callable[[], None]:
    """The same call with oneDNN's matrix products, or with torch's own (``evodevo.operators.dense``)."""

    def chosen() -> None:
        with patch.object(dense, "one_dnn", lambda: one_dnn):
            run()

    return chosen


Times = dict[str, tuple[Spread, Spread]]
"""Peer -> its time over ours with torch's products, and over ours with the products that evodevo takes here."""


def compare(report: Report, models: dict[str, nn.Module], windows: Tensor, rounds: int) -> Times:
    """Measure one family; the first model is ours."""
    (first, model), *peers = models.items()
    own = step(model, windows)
    runs = {f"{first}, {TORCH}": with_products(own, False), f"{first}, {ONE_DNN}": with_products(own, True)}
    runs |= {name: step(peer, windows) for name, peer in peers}
    seconds = take_turns(runs, rounds)
    base, other = seconds[f"{first}, {TORCH}"], seconds[f"{first}, {ONE_DNN}"]
    for name, values in seconds.items():
        report.rows.append(
            {
                "who": name,
                "parameters": f"{count(models.get(name, model)):,}",
                "ms (quartiles)": Spread.of(values).show(1e3, 4),
                "tokens/s": f"{windows[:, 1:].numel() / Spread.of(values).median:,.0f}",
                "time / first line": ratio(values, base).show(),
            }
        )
    gain, statement = ratio(base, other).median, f"{first}: times as fast with {ONE_DNN} as with {TORCH}"
    (report.at_least if dense.one_dnn() else report.at_most)(statement, gain, LEAST_GAIN)
    taken = other if dense.one_dnn() else base
    return {name: (ratio(seconds[name], base), ratio(seconds[name], taken)) for name, _ in peers}


def count(model: nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=768, depth=24, vocabulary=8192, batch=1, length=512, rounds=7)
    width, depth, vocabulary, length = options.width, options.depth, options.vocabulary, options.length
    shape = f"B={options.batch} L={length} D={width} LIVs={depth} V={vocabulary}, float32"
    products = ONE_DNN if dense.one_dnn() else TORCH
    settings = {"shape": shape, "capability": torch.backends.cpu.get_cpu_capability(), "evodevo takes": products}
    report = Report("Training step: forward, backward, AdamW", settings=settings)
    windows = torch.randint(0, vocabulary, (options.batch, length + 1))

    models = {
        "evodevo transformer++": ours("transformer++", width, depth, vocabulary),
        "transformers Llama": llama(width, depth, vocabulary, length),
    }
    times = compare(report, models, windows, options.rounds)
    mine, theirs = (count(model) for model in models.values())
    report.at_most("transformer++ and Llama: difference of parameters, %", 100 * abs(theirs / mine - 1), 2)
    for words, one in zip((TORCH, "as it runs here"), times["transformers Llama"], strict=True):
        report.at_least(f"transformer++, {words}: times as fast as Llama", one.median, 1)

    space = BackboneSpace(BackboneSettings(depth=depth, dimensions=Dimensions(width=width)))
    genome = space.named("striped-mamba", depth)
    attention = [place // 2 for place, segment in enumerate(genome) if segment[0] == 1]
    models = {"evodevo striped-mamba": ours("striped-mamba", width, depth, vocabulary)}
    for chunk in BAMBA_CHUNKS:
        models[f"transformers Bamba, chunk {chunk}"] = bamba(width, depth, vocabulary, length, chunk, attention)
    times = compare(report, models, windows, options.rounds)
    mine, theirs = (count(model) for model in list(models.values())[:2])
    report.at_most("striped-mamba and Bamba: difference of parameters, %", 100 * abs(theirs / mine - 1), 2)
    for place, words in enumerate((TORCH, "as it runs here")):
        default, *_ = fastest = [times[f"transformers Bamba, chunk {chunk}"][place].median for chunk in BAMBA_CHUNKS]
        report.at_least(f"striped-mamba, {words}: times as fast as Bamba at its default chunk", default, 1.5)
        report.at_least(f"striped-mamba, {words}: times as fast as Bamba at its best chunk", min(fastest), 1.5)
    report.finish(options.json)


if __name__ == "__main__":
    main()
