"""Blocks under ``torch.compile``: one function for each class of LIV, which every network of this process uses.

A search trains many networks of few classes. What is compiled is therefore a block as a function of its weights: the
second network whose LIVs are of known classes, at known shapes, compiles nothing. A whole network would be compiled
anew for each genome.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from evodevo.execution.environment import WORKER_FOLDER
from evodevo.operators.base import Output
from evodevo.operators.block import Block
from evodevo.operators.differential import Differential
from evodevo.operators.liv import LIV

Backend = Literal["off", "eager", "aot_eager", "inductor"]

INDUCTOR_FOLDER = "TORCHINDUCTOR_CACHE_DIR"


def copies_of(block: Block) -> tuple[LIV, ...]:
    """The LIVs of a block: one, or the two of a differential one."""
    operator = block.operator
    copies = (operator.first, operator.second) if isinstance(operator, Differential) else (operator,)
    return cast("tuple[LIV, ...]", copies)


class Unit(nn.Module):
    """A block with the feature groups that it computes, which live in a bank elsewhere."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block
        self.lent = nn.ModuleList(group for one in copies_of(block) for group in one.groups.values())

    def forward(self, x: Tensor, shared: Mapping[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """The block's output (B, T, D), and the groups to lend."""
        output: Output = self.block(x, shared=shared)
        return output.y, output.groups


@dataclass
class BlockCompiler:
    """The compiled functions of one backend.

    Attributes:
        backend: Name of the backend of ``torch.compile``.
        compilations: Number of graphs that were compiled so far.
    """

    backend: Backend
    compilations: int = 0
    _functions: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def run(self, kind: str, unit: Unit, x: Tensor, shared: Mapping[str, Any]) -> Output:
        """A block's output without a state.

        Args:
            kind: Everything that decides what the block computes, beside its weights and the shapes.
            unit: The block.
            x: (B, T, D).
            shared: See ``Operator``.
        """
        if kind not in self._functions:
            self._functions[kind] = self._compile(unit)
        with warnings.catch_warnings():
            # Dynamo looks at ``grad`` of an input that is no leaf, and torch warns whoever does.
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor", category=UserWarning)
            y, groups = self._functions[kind](dict(unit.named_parameters()), x, dict(shared))
        return Output(y, groups)

    def _compile(self, unit: Unit) -> Callable[..., Any]:
        # A copy, so that the first network of a class is not kept; its weights are replaced at every call.
        template = copy.deepcopy(unit).requires_grad_(False).train()

        def call(weights: dict[str, Tensor], x: Tensor, shared: dict[str, Any]) -> Any:
            return functional_call(template, weights, (x, shared))

        # Dynamo keeps what it compiled by code object, at most eight for each. Every class has one of its own.
        own = FunctionType(
            call.__code__.replace(), call.__globals__, call.__name__, call.__defaults__, call.__closure__
        )
        if self.backend == "inductor" and (folder := os.environ.get(WORKER_FOLDER)) is not None:
            # The folder of an evaluation ends with it; what Inductor wrote serves the worker's next ones.
            os.environ.setdefault(INDUCTOR_FOLDER, str(Path(folder, "inductor")))
        return torch.compile(own, backend=self._counted, dynamic=False)

    def _counted(self, graph: Any, inputs: Any) -> Any:
        self.compilations += 1
        compile_graph = torch._dynamo.lookup_backend(self.backend)
        return compile_graph(graph, inputs)


_COMPILERS: dict[Backend, BlockCompiler] = {}


def compiler(backend: Backend) -> BlockCompiler:
    """The one of this process."""
    return _COMPILERS.setdefault(backend, BlockCompiler(backend))
