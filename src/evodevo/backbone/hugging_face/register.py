"""Registration of the model type with transformers' tables; no code of a model's folder is ever run."""

from __future__ import annotations

from evodevo.errors import missing_extra

try:
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError:
    raise missing_extra("transformers", "hf", "the model type evodevo") from None

from evodevo.backbone.hugging_face.configuration import EvodevoConfig
from evodevo.backbone.hugging_face.modeling import EvodevoForCausalLM

AutoConfig.register(EvodevoConfig.model_type, EvodevoConfig, exist_ok=True)
AutoModelForCausalLM.register(EvodevoConfig, EvodevoForCausalLM, exist_ok=True)

__all__ = ["EvodevoConfig", "EvodevoForCausalLM"]
