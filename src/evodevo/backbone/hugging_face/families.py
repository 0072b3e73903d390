"""Families of transformers that a backbone is exactly: their configuration, and the backbone's weights by their names.

A match by genome is a claim; the exporter compares logits before it believes one. Nothing that shares, differs from
layer to layer, or has parts that a family lacks is matched. LFM2 is not here: its attention normalises queries and
keys, which ours does not, and without attention transformers 5.23 cannot run it (its cache asks attention for the
length).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.model import Backbone
from evodevo.operators.attention import BASE
from evodevo.operators.liv import NORM_EPSILON

# Operator genomes (docs/spec/star.md): softmax attention with plain projections, and SwiGLU.
_ATTENTION = {(1, 2, 1, 2, 1), (3, 2, 1, 2, 1), (4, 2, 1, 2, 1)}
_GATED_UNIT = (9, 1, 1, 4, 2)


@dataclass(frozen=True)
class NativeFamily:
    """A backbone in another's terms.

    Attributes:
        model_type: Model type of transformers.
        values: Values of its configuration by name.
        weights: Its state dict.
    """

    model_type: str
    values: Mapping[str, Any]
    weights: Mapping[str, Tensor]


def families(backbone: Backbone) -> list[NativeFamily]:
    """The families that a backbone seems to be."""
    return [found for match in _MATCHES if (found := match(backbone)) is not None]


def _pairs(backbone: Backbone) -> list[tuple[LIVPlan, LIVPlan]] | None:
    """A mixer and a SwiGLU in turn, each with weights and features of its own; None for any other backbone."""
    plans = backbone.plans
    alone = all(
        set(plan.weights) == set(plan.spec.groups)
        and set(plan.weights.values()) == {plan.position}
        and plan.residual is None
        and plan.spec.differential == "none"
        for plan in plans
    )
    pairs = list(zip(plans[0::2], plans[1::2], strict=False))
    if not alone or len(plans) % 2 or any(second.spec.operator != _GATED_UNIT for _, second in pairs):
        return None
    return pairs


def _common(backbone: Backbone, pairs: list[tuple[LIVPlan, LIVPlan]]) -> dict[str, Any]:
    return {
        "vocab_size": backbone.embedding.num_embeddings,
        "hidden_size": backbone.dims.width,
        "intermediate_size": pairs[0][1].spec.inner(backbone.dims),
        "num_hidden_layers": len(pairs),
        "num_attention_heads": backbone.dims.heads,
        "max_position_embeddings": backbone.input_specs[0].length,
        "tie_word_embeddings": backbone.head is None,
        "rope_parameters": {"rope_type": "default", "rope_theta": BASE},
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def _group(backbone: Backbone, plan: LIVPlan, role: str, name: str = "weight") -> Tensor:
    weight: Tensor = getattr(backbone.bank[f"{plan.position}_{role}"], name)
    return weight.detach()


def _ends(backbone: Backbone, norm: str) -> dict[str, Tensor]:
    weights = {"model.embed_tokens.weight": backbone.embedding.weight, f"model.{norm}.weight": backbone.norm.weight}
    if backbone.head is not None:
        weights["lm_head.weight"] = backbone.head.weight
    return {name: weight.detach() for name, weight in weights.items()}


def _own(backbone: Backbone, plan: LIVPlan, name: str) -> Tensor:
    weight: Tensor = backbone.get_parameter(f"blocks.{plan.position}.{name}")
    return weight.detach()


def llama(backbone: Backbone) -> NativeFamily | None:
    """Llama: attention, all of one ratio of query to key heads, and SwiGLU in turn."""
    pairs = _pairs(backbone)
    if pairs is None or {first.spec.operator for first, _ in pairs} - _ATTENTION:
        return None
    repeats = {first.spec.repeat for first, _ in pairs}
    if len(repeats) != 1:
        return None
    heads = backbone.dims.heads // repeats.pop()
    weights = _ends(backbone, "norm")
    for number, (mixer, unit) in enumerate(pairs):
        at = f"model.layers.{number}"
        for role, name in (("query", "q"), ("key", "k"), ("value", "v")):
            weights[f"{at}.self_attn.{name}_proj.weight"] = _group(backbone, mixer, role)
        weights[f"{at}.self_attn.o_proj.weight"] = _own(backbone, mixer, "operator.out")
        weights[f"{at}.mlp.gate_proj.weight"] = _group(backbone, unit, "gate")
        weights[f"{at}.mlp.up_proj.weight"] = _group(backbone, unit, "up")
        weights[f"{at}.mlp.down_proj.weight"] = _own(backbone, unit, "operator.out")
        weights[f"{at}.input_layernorm.weight"] = _own(backbone, mixer, "norm.weight")
        weights[f"{at}.post_attention_layernorm.weight"] = _own(backbone, unit, "norm.weight")
    values = {
        **_common(backbone, pairs),
        "num_key_value_heads": heads,
        "head_dim": backbone.dims.head,
        "rms_norm_eps": NORM_EPSILON,
    }
    return NativeFamily("llama", values, weights)


_MATCHES: tuple[Callable[[Backbone], NativeFamily | None], ...] = (llama,)
