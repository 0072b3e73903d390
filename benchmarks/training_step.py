"""A whole training step of our baselines against the same networks in transformers.

Run: python benchmarks/training_step.py [--json PATH] [--width 256 --depth 12 --batch 4 --length 256]

Forward, backward and the step of the same AdamW (fused), in float32, with tied embeddings and one thread.
transformer++ meets LlamaForCausalLM with sdpa: same width, layers, heads, hidden size and vocabulary.
striped-mamba meets BambaForCausalLM, its nearest relative there: a decay per head and state (Mamba-2), SwiGLU after
every mixer, attention at any layers one names, all at our sizes (expand 1, N = 32). Its chunk size is its default and
the ones that suit it better here. Zamba2 shares one attention block and wraps it in adapters, and Jamba has Mamba-1
with a decay per channel and state, which scans token by token: neither can take the same shape.

All models have the matrix products that torch takes by itself. A processor without AVX-512 is imitated by
ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BambaConfig, BambaForCausalLM, LlamaConfig, LlamaForCausalLM

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.testing.networks import small_backbone, text_batch
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings
from measuring import Report, Spread, arguments, ratio, take_turns

BAMBA_CHUNKS = (256, 64, 32)
STATE = 32


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


def compare(report: Report, models: dict[str, nn.Module], windows: Tensor, rounds: int) -> dict[str, Spread]:
    """Measure one family; the first model is ours. Returns theirs / ours."""
    first = next(iter(models))
    seconds = take_turns({name: step(model, windows) for name, model in models.items()}, rounds)
    times = {name: ratio(values, seconds[first]) for name, values in seconds.items()}
    for name, values in seconds.items():
        report.rows.append(
            {
                "who": name,
                "parameters": f"{count(models[name]):,}",
                "ms (quartiles)": Spread.of(values).show(1e3, 4),
                "tokens/s": f"{windows[:, 1:].numel() / Spread.of(values).median:,.0f}",
                "time / ours": times[name].show(),
            }
        )
    return times


def count(model: nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=768, depth=24, vocabulary=8192, batch=1, length=512, rounds=7)
    width, depth, vocabulary, length = options.width, options.depth, options.vocabulary, options.length
    shape = f"B={options.batch} L={length} D={width} LIVs={depth} V={vocabulary}, float32"
    settings = {"shape": shape, "capability": torch.backends.cpu.get_cpu_capability()}
    report = Report("Training step: forward, backward, AdamW", settings=settings)
    windows = torch.randint(0, vocabulary, (options.batch, length + 1))

    models = {
        "evodevo transformer++": ours("transformer++", width, depth, vocabulary),
        "transformers Llama": llama(width, depth, vocabulary, length),
    }
    times = compare(report, models, windows, options.rounds)
    mine, theirs = (count(model) for model in models.values())
    report.at_most("transformer++ and Llama: difference of parameters, %", 100 * abs(theirs / mine - 1), 2)
    report.at_least("transformer++: times as fast as Llama", times["transformers Llama"].median, 1)

    space = BackboneSpace(BackboneSettings(depth=depth, dimensions=Dimensions(width=width)))
    genome = space.named("striped-mamba", depth)
    attention = [place // 2 for place, segment in enumerate(genome) if segment[0] == 1]
    models = {"evodevo striped-mamba": ours("striped-mamba", width, depth, vocabulary)}
    for chunk in BAMBA_CHUNKS:
        models[f"transformers Bamba, chunk {chunk}"] = bamba(width, depth, vocabulary, length, chunk, attention)
    times = compare(report, models, windows, options.rounds)
    mine, theirs = (count(model) for model in list(models.values())[:2])
    report.at_most("striped-mamba and Bamba: difference of parameters, %", 100 * abs(theirs / mine - 1), 2)
    default, *_ = fastest = [times[f"transformers Bamba, chunk {chunk}"].median for chunk in BAMBA_CHUNKS]
    report.at_least("striped-mamba: times as fast as Bamba at its default chunk", default, 1.5)
    report.at_least("striped-mamba: times as fast as Bamba at its best chunk", min(fastest), 1.5)
    report.finish(options.json)


if __name__ == "__main__":
    main()
