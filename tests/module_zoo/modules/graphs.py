"""Graphs of modules, written shortly."""

from __future__ import annotations

from typing import Any

from evodevo.module_zoo.modules.nodes.base import NODES, NodeSpec
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype, ModuleGraph


def node(name: str, type_: str, **settings: Any) -> NodeSpec:
    return NODES.get(type_)(id=name, **settings)


def edges(text: str) -> tuple[tuple[str, str], ...]:
    """``"in>a a>out"`` is two."""
    return tuple((one.split(">")[0], one.split(">")[1]) for one in text.split())


def graph(text: str, *nodes: NodeSpec, **plain: str) -> ModuleGraph:
    """``graph("in>a a>out", a="norm")``: the nodes that are given, and those of a type without further settings."""
    return ModuleGraph(nodes=(*(node(name, one) for name, one in plain.items()), *nodes), edges=edges(text))


def hybrid_of(made: ModuleGraph, width: int) -> ModuleGenotype:
    return ModuleGenotype(archetype=HYBRID, width=width, graph=made)
