"""All routers of a network at once, where they are alike: the same computation on stacked parameters.

Legend: B samples, K sources, S positions, d width, U units of the head, N targets; P is 1, or S where connections are
decided at each position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.h_model.router import Router
from evodevo.networks.routing.pools import softmax_mean


@dataclass(frozen=True)
class RouterGroup:
    """K routers of one kind of head and pool.

    Attributes:
        first: First router; its pool serves all, but for a query.
        query: Queries (K, d, 1), or None.
        inner, outer: Weights (K, d, U), (K, U or d, N) and biases (K, 1, U), (K, 1, N); None where the head has none.
        offset: Logits (K, N) of a channel or independent head, or None.
    """

    first: Router
    query: Tensor | None
    inner: tuple[Tensor, Tensor] | None
    outer: tuple[Tensor, Tensor] | None
    offset: Tensor | None

    @classmethod
    def of(cls, routers: Sequence[Router]) -> RouterGroup | None:
        """The group, or None where the routers differ, have hooks, or are constant."""
        first = routers[0]
        shape = _shape(first)
        # Hooks want the calls of their router, which a group does not make.
        hooked = any(router._forward_hooks or router._forward_pre_hooks for router in routers)
        if first.constant is not None or hooked or any(_shape(router) != shape for router in routers):
            return None
        pools = [router.pool for router in routers if router.pool is not None]
        queries: list[Tensor] = [pool.query for pool in pools if pool.query is not None]
        offsets: list[Tensor] = [router.logits for router in routers if router.logits is not None]
        inner = [router.inner for router in routers if router.inner is not None]
        outer = [router.outer for router in routers if router.outer is not None]
        return cls(
            first,
            torch.stack(queries).unsqueeze(-1) if queries else None,
            _stacked(inner),
            _stacked(outer),
            torch.stack(offsets) if offsets else None,
        )

    def __call__(self, messages: Tensor, masks: Tensor | None) -> Tensor:
        """(B, K, S, d) and (B, K, S) or None -> logits (B, P, K, N); see ``Router``."""
        if self.first.pool is None:
            assert self.offset is not None
            return self.offset.expand(messages.shape[0], 1, -1, -1)
        pooled = self._pooled(messages.transpose(0, 1), None if masks is None else masks.transpose(0, 1))
        if self.outer is None:
            assert self.offset is not None
            return (pooled[..., self.first.channels] + self.offset[:, None, None]).permute(1, 2, 0, 3)
        rows = pooled.flatten(1, 2)
        if self.inner is not None:
            rows = F.gelu(torch.baddbmm(self.inner[1], rows, self.inner[0]))
        logits = torch.baddbmm(self.outer[1], rows, self.outer[0])
        return logits.view(*pooled.shape[:3], -1).permute(1, 2, 0, 3)

    def _pooled(self, messages: Tensor, masks: Tensor | None) -> Tensor:
        """(K, B, S, d) -> (K, B, P, d)."""
        assert self.first.pool is not None
        if self.query is None:
            pooled: Tensor = self.first.pool(messages.flatten(0, 1), None if masks is None else masks.flatten(0, 1))
            return pooled.view(*messages.shape[:2], *pooled.shape[1:])
        scores = torch.bmm(messages.flatten(1, 2), self.query).view(messages.shape[:3]) * messages.shape[-1] ** -0.5
        return softmax_mean(messages, scores, masks).unsqueeze(2)


def _shape(router: Router) -> tuple[object, ...]:
    """The properties that alike routers share."""
    maps = [None if layer is None else tuple(layer.weight.shape) for layer in (router.inner, router.outer)]
    offset = None if router.logits is None else len(router.logits)
    channels: tuple[int, ...] | None = None
    if router.channels is not None:
        # On the meta device there are shapes and no numbers; a new router's channels are the first ones.
        places = torch.arange(len(router.channels)) if router.channels.is_meta else router.channels
        channels = tuple(places.tolist())
    return (router.head, None if router.pool is None else router.pool.kind, *maps, offset, channels)


def _stacked(layers: list[torch.nn.Linear]) -> tuple[Tensor, Tensor] | None:
    if not layers:
        return None
    weight = torch.stack([layer.weight for layer in layers]).mT
    return weight, torch.stack([layer.bias for layer in layers]).unsqueeze(1)
