"""The model type ``evodevo`` of transformers: a backbone with the interface of a causal language model."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from evodevo.backbone.hugging_face.cache import EvodevoCache, as_cache
from evodevo.backbone.hugging_face.configuration import EvodevoConfig
from evodevo.backbone.model import Backbone
from evodevo.tasks.text.language import windows_of


class EvodevoForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A backbone: every weight under one name, whatever layers share it."""

    config_class = EvodevoConfig
    base_model_prefix = "backbone"
    main_input_name = "input_ids"
    _is_stateful = True  # assisted decoding would have to cut states
    _supports_sdpa = True
    _no_split_modules = ("Block",)

    def __init__(self, config: EvodevoConfig) -> None:
        super().__init__(config)
        self.backbone = Backbone(config.structure(), *windows_of(config.vocab_size, config.context_length))
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: the backbone draws its own."""

    def get_input_embeddings(self) -> nn.Module:
        """The embedding."""
        return self.backbone.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding."""
        self.backbone.embedding = value

    def get_output_embeddings(self) -> nn.Module | None:
        """The head; None where it is the embedding."""
        return self.backbone.head

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        inputs_embeds: Tensor | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Logits of each next token, (B, T, V). Positions count real tokens only; ``position_ids`` are not read.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, tokens so far).
            past_key_values: ``EvodevoCache`` of the tokens before; it is updated.
            labels: Token ids to predict, (B, T), -100 at positions without one; they are shifted here.
            use_cache: Whether a cache is returned; by default outside training only.
            logits_to_keep: Number of last positions whose logits are computed; 0 = all.
            inputs_embeds: None; embeddings in place of ids are not supported.
            return_dict: Whether the output has named fields; False returns a tuple.

        Raises:
            ValueError: no tokens, or a mask of four axes.
        """
        if input_ids is None or inputs_embeds is not None:
            raise ValueError("an evodevo model reads input_ids; inputs_embeds are not supported.")
        use_cache = (self.config.use_cache and not self.training) if use_cache is None else use_cache
        cache = as_cache(past_key_values, self.backbone) if use_cache or past_key_values is not None else None
        mask = self._mask(input_ids, attention_mask, cache)
        state = None if cache is None else cache.of(input_ids.shape[0])
        hidden = self.backbone.hidden(input_ids, mask=mask, state=state)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.backbone.logits(hidden[:, kept])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **others)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)
        return output if return_dict is not False else output.to_tuple()

    @staticmethod
    def _mask(tokens: Tensor, given: Tensor | None, cache: EvodevoCache | None) -> Tensor | None:
        """(B, T), true at real tokens; None where all are, which is the fast way."""
        if given is None:
            return None
        if given.ndim != 2:
            raise ValueError(f"attention_mask has {given.ndim} axes; an evodevo model reads (batch, tokens).")
        mask = given[:, -tokens.shape[1] :].to(device=tokens.device).bool()
        return None if bool(mask.all()) else mask

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *others: Any, **named: Any
    ) -> None:
        """An ``EvodevoCache`` in place of transformers' own, which has no place for shared states."""
        if model_kwargs.get("past_key_values") is None and generation_config.use_cache is not False:
            model_kwargs["past_key_values"] = EvodevoCache(self.backbone)
        elif model_kwargs.get("past_key_values") is not None:
            model_kwargs["past_key_values"] = as_cache(model_kwargs["past_key_values"], self.backbone)
