"""Log-likelihoods of options after contexts, in batches; the options of one context share its prefill.

The context is read once, its state is taken over into one row per option, and only the options are read after it. The
numbers are those of reading each option with its context from the start, up to the rounding of sums in another order.

Legend: B rows, T tokens, D width, N scored tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evodevo.networks.likelihood.reader import TOKENS_AT_ONCE, Ids, Progress, Reader, no_progress
from evodevo.tasks.questions.accuracy import Likelihood
from evodevo.tasks.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class Request:
    """A context and the options after it.

    Attributes:
        context: Token ids, at least one.
        options: Token ids of each option, at least one each.
    """

    context: Ids
    options: tuple[Ids, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest option."""
        return max(map(len, self.options))


def encode_pair(tokenizer: Tokenizer, context: str, continuation: str) -> tuple[Ids, Ids]:
    """Token ids of a context and of what follows it, encoded as one text and divided at the end of the context.

    White space at the end of the context goes to the continuation, as subword tokenizers have it before a word: the
    rule of lm-eval's ``_encode_pair``.
    """
    kept = context.rstrip()
    continuation = context[len(kept) :] + continuation
    before = tokenizer.encode(kept) if kept else np.zeros(0, np.int64)
    after = tokenizer.encode(kept + continuation)[len(before) :]
    # A tokenizer that joins the whole continuation to the context's last token leaves nothing to score.
    return before, after if len(after) else tokenizer.encode(continuation)


def likelihoods(
    reader: Reader, requests: Sequence[Request], *, cached: bool = True, progress: Progress = no_progress
) -> list[list[Likelihood]]:
    """The likelihoods of all options, in the order of the requests.

    A context that is too long loses its beginning, so that it and the longest of its options fit into the reader's
    length; of an option that alone is longer, no token is lost, and it is read beyond that length.

    Args:
        reader: Reader of the model.
        requests: Contexts and options.
        cached: Whether options share the prefill of their context, where there are several and the model allows it.
        progress: Function called with the numbers of finished and of all requests.
    """
    fitted = [_fitted(request, reader.length) for request in requests]
    several = max((len(request.options) for request in requests), default=0) > 1
    shared = cached and several and reader.forks()
    answers: list[list[Likelihood]] = [[] for _ in requests]
    done = 0
    with torch.no_grad():
        for places in _batches(fitted, shared):
            batch = [fitted[place] for place in places]
            for place, answer in zip(places, (_shared if shared else _whole)(reader, batch), strict=True):
                answers[place] = answer
            done += len(places)
            progress(done, len(requests))
    return answers


def room_for(request: Request, length: int) -> int:
    """Tokens of a context that fit, with the longest of its options, into what a model reads at once."""
    return max(1, length - request.longest + 1)


def _fitted(request: Request, length: int) -> Request:
    return Request(request.context[-room_for(request, length) :], request.options)


def _batches(requests: Sequence[Request], shared: bool) -> Iterator[list[int]]:
    """Places of requests of about equal length, longest first, so that what needs most memory comes first."""
    order = sorted(range(len(requests)), key=lambda n: (-len(requests[n].context), -requests[n].longest, n))
    batch: list[int] = []
    rows, context, option = 0, 0, 0
    for place in order:
        request = requests[place]
        count = len(request.options)
        longest = max(option, request.longest)
        widest = max(context, len(request.context))
        # Rows of options hold the state of a context each.
        if batch and (rows + count) * (widest + longest) > TOKENS_AT_ONCE * (4 if shared else 1):
            yield batch
            batch, rows, context, option = [], 0, 0, 0
            longest, widest = request.longest, len(request.context)
        batch.append(place)
        rows, context, option = rows + count, widest, longest
    if batch:
        yield batch


def _whole(reader: Reader, requests: Sequence[Request]) -> Iterator[list[Likelihood]]:
    """Each option with its context from the start. Padding is on the right, where it has no effect on any token."""
    rows = [np.concatenate([request.context, option]) for request in requests for option in request.options]
    lengths = [len(option) for request in requests for option in request.options]
    tokens, _ = reader.place([row[:-1] for row in rows])
    hidden = reader.hidden(tokens)
    places = [(row, len(ids) - 1 - count, count) for row, (ids, count) in enumerate(zip(rows, lengths, strict=True))]
    states = torch.cat([hidden[row, begin : begin + count] for row, begin, count in places])
    targets = [row[-count:] for row, count in zip(rows, lengths, strict=True)]
    return _gathered(reader, requests, states, targets)


def _shared(reader: Reader, requests: Sequence[Request]) -> Iterator[list[Likelihood]]:
    """Contexts first, then the options from copies of their states."""
    options = [option for request in requests for option in request.options]
    owners = [row for row, request in enumerate(requests) for _ in request.options]
    longest = max(map(len, options))
    contexts, mask = reader.place([request.context for request in requests], left=True)
    state = reader.model.initial_state(len(requests), contexts.shape[1] + longest)
    # Without padding no mask: attention then takes its fast path.
    last = reader.hidden(contexts, mask=None if bool(mask.all()) else mask, state=state)[:, -1]
    rows = torch.as_tensor(owners, device=contexts.device)
    first = last[rows].unsqueeze(1)
    hidden = first
    if longest > 1:
        tokens, _ = reader.place([option[:-1] if len(option) > 1 else option for option in options])
        hidden = torch.cat([first, reader.hidden(tokens, state=state.select(rows))], 1)
    states = torch.cat([hidden[row, : len(option)] for row, option in enumerate(options)])
    return _gathered(reader, requests, states, options)


def _gathered(
    reader: Reader, requests: Sequence[Request], states: Tensor, targets: list[Ids]
) -> Iterator[list[Likelihood]]:
    answers = iter([Likelihood(*judged) for judged in reader.judge(states, targets)])
    return ([next(answers) for _ in request.options] for request in requests)
