"""The input of a pretrained text encoder's first layer, as a table of tokens and a table of positions.

An encoder adds token, position and type and normalises the sum; two tables that are added come close to it: the token's
as it is at a middle position, and what the position changes of that on average.

Legend: V ids, L positions, D channels of the encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.operators.pretrained.layers import load_encoder
from evodevo.operators.pretrained.spec import model_folder, read_sizes

_SAMPLED = 256
"""Ids over which the change by position is averaged."""


@torch.no_grad()
def embedding_tables(path: str, vocabulary: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens (V, D) and positions (L, D) whose sums are what the first layer reads, as near as sums can be.

    Args:
        path: folder of the model, or its name in the local Hugging Face cache.
        vocabulary: V; the first ids.
        length: L; the first positions.

    Raises:
        UsageError: a model that reads images, or has fewer ids or positions.
        NotFoundError, DataError: no readable model.
    """
    sizes = read_sizes(path)
    if sizes.family == "vit":
        raise UsageError(f"{path} reads images; it has no embeddings of tokens.")
    model, _ = load_encoder(model_folder(path), sizes.family)
    # RoBERTa counts positions from behind the id of padding.
    first = model.config.pad_token_id + 1 if sizes.family == "roberta" else 0
    ids, places = model.config.vocab_size, model.config.max_position_embeddings - first
    if vocabulary > ids or length > places:
        raise UsageError(
            f"{path} has {ids} ids and {places} positions; the task has {vocabulary} ids and {length} positions. "
            "Take the donor's tokenizer and fewer positions, or fresh embeddings."
        )

    def at(tokens: Tensor, place: int) -> Tensor:
        where = torch.full((len(tokens), 1), first + place)
        embedded: Tensor = model.embeddings(input_ids=tokens[:, None], position_ids=where)
        return embedded[:, 0]

    middle = length // 2
    tokens = at(torch.arange(vocabulary), middle)
    sampled = torch.linspace(0, vocabulary - 1, min(_SAMPLED, vocabulary)).long()
    positions = torch.stack([(at(sampled, place) - tokens[sampled]).mean(0) for place in range(length)])
    return tokens, positions
