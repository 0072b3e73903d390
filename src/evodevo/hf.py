"""Registers the model type ``evodevo`` with transformers; then ``AutoModelForCausalLM`` loads it.

Nothing is executed from a model's folder: the classes are those of the installed evodevo.
"""

from __future__ import annotations

from evodevo.backbone.hugging_face.register import EvodevoConfig, EvodevoForCausalLM

__all__ = ["EvodevoConfig", "EvodevoForCausalLM"]
