"""Mixture of module outputs: values, heads, output map (eqs. 51, 53, 60).

Source: docs/spec/architect_thyself.md#values.

Values are linear in module outputs, so the mixture is taken first and one vector per head goes through the map, instead
of N: the same numbers but for rounding, with a fraction of the products.

Legend: B samples, N modules, H heads, d width, d_h = d / H.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.module_zoo.spec import ZooRouterStructure


class ModuleValues(nn.Module):
    """z = W_o [head 1; ...; head H], head h = sum_m alpha^h_m W_v^h u_m; or as printed, see ``values``.

    Args:
        width: Width d.
        heads: Number of heads, H.
        structure: ``values``: ``concat`` as above, with W_v^h (d_h, d); ``paper``: z = sum_m alpha_m v_m, v_m =
            (1/H) sum_h W_v^h u_m with W_v^h (d, d), and no W_o. ``identity``: W_v is the identity.
    """

    def __init__(self, width: int, heads: int, structure: ZooRouterStructure) -> None:
        super().__init__()
        self.heads = heads
        self.side_by_side = structure.values == "concat"
        maps = 1 if self.side_by_side else heads
        self.value = None if structure.identity else nn.Linear(width, maps * width, bias=False)
        self.output = nn.Linear(width, width, bias=False) if self.side_by_side else None

    def forward(self, head_weights: Tensor, outputs: Tensor) -> Tensor:
        """Mixture (B, d), from weights (B, H, N) and outputs (B, N, d)."""
        weights = head_weights.to(outputs.dtype)
        if self.output is None:
            return self._averaged(weights.mean(1), outputs)
        mixed: Tensor = self.output(self._side_by_side(weights, outputs))
        return mixed

    def _side_by_side(self, weights: Tensor, outputs: Tensor) -> Tensor:
        """Mixtures of all heads side by side, (B, d)."""
        if self.value is None:
            batch, count, _ = outputs.shape
            own = outputs.view(batch, count, self.heads, -1).transpose(1, 2)  # (B, H, N, d_h)
            parts: Tensor = weights.unsqueeze(-2) @ own
            return parts.flatten(1)
        weighted = weights @ outputs  # (B, H, d)
        if self.heads == 1:
            value: Tensor = self.value(weighted.squeeze(1))
            return value
        maps = self.value.weight.to(weighted.dtype).view(self.heads, -1, weighted.shape[-1])
        return torch.bmm(weighted.transpose(0, 1), maps.mT).transpose(0, 1).flatten(1)

    def _averaged(self, weights: Tensor, outputs: Tensor) -> Tensor:
        weighted = (weights.unsqueeze(1) @ outputs).squeeze(1)
        if self.value is None:
            return weighted
        # The mean of H maps is one map.
        mean = self.value.weight.view(self.heads, *[weighted.shape[-1]] * 2).mean(0)
        return nn.functional.linear(weighted, mean.to(weighted.dtype))
