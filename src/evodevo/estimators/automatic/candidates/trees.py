"""Sums and means of decision trees as arrays, whoever has trained them.

Legend: n samples, D features, T trees, N nodes of all trees, V values of a leaf, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import UsageError
from evodevo.estimators.automatic.candidates.arrays import taken
from evodevo.estimators.automatic.candidates.base import Arrays, Link, ProbabilityModel, probabilities
from evodevo.estimators.automatic.features.dense import DenseFeatures
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples

LEAF = -1


class _TreesFacts(Settings):
    features: DenseFeatures
    link: Literal["softmax", "two", "sigmoid", "identity", "mean"]
    outputs: int = Field(ge=1)


class Forest:
    """Trees as arrays.

    Attributes:
        roots: Number of each tree's first node, (T,).
        target: Output that each tree adds to, (T,); -1 where its leaves have a value for every output.
        feature: Feature that a node asks for, (N,); ``LEAF`` in leaves.
        threshold: (N,); a sample whose feature is not above it goes to ``left``.
        left, right: Numbers of the nodes below, (N,).
        missing_left: Whether a sample without the feature goes to ``left``, (N,), 0 or 1.
        value: Values of leaves, (N, V).
    """

    NAMES = ("roots", "target", "feature", "threshold", "left", "right", "missing_left")

    def __init__(self, **arrays: NDArray[Any]) -> None:
        self.roots, self.target = arrays["roots"].astype(np.int64), arrays["target"].astype(np.int64)
        self.feature, self.threshold = arrays["feature"].astype(np.int64), arrays["threshold"].astype(np.float64)
        self.left, self.right = arrays["left"].astype(np.int64), arrays["right"].astype(np.int64)
        self.missing_left, self.value = arrays["missing_left"].astype(np.uint8), arrays["value"].astype(np.float64)

    def outputs(self, table: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """Sum of the trees' values, (n, O), for features (n, D)."""
        total = np.zeros((len(table), count))
        missing = np.isnan(table)
        for root, target in zip(self.roots.tolist(), self.target.tolist(), strict=True):
            values = self.value[self._leaves(table, missing, root)]
            if target < 0:
                total += values
            else:
                total[:, target] += values[:, 0]
        return total

    def _leaves(self, table: NDArray[np.float64], missing: NDArray[np.bool_], root: int) -> NDArray[np.int64]:
        nodes = np.full(len(table), root)
        rows = np.arange(len(table))
        while len(rows):
            at = nodes[rows]
            asked = self.feature[at]
            inner = asked != LEAF
            rows, at, asked = rows[inner], at[inner], asked[inner]
            below = table[rows, asked] <= self.threshold[at]
            goes_left = np.where(missing[rows, asked], self.missing_left[at] == 1, below)
            nodes[rows] = np.where(goes_left, self.left[at], self.right[at])
        return nodes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        return {**{name: getattr(self, name) for name in self.NAMES}, "value": self.value}

    @classmethod
    def read(cls, arrays: Arrays) -> Self:
        """The trees of arrays from a file.

        Raises:
            UsageError: They are no trees: a node leads back or out of the arrays.
        """
        plain = {name: taken(arrays, name, 1, whole=name != "threshold") for name in cls.NAMES}
        forest = cls(**plain, value=taken(arrays, "value", 2))
        nodes = len(forest.value)
        if any(len(plain[name]) != nodes for name in cls.NAMES[2:]) or len(forest.roots) != len(forest.target):
            raise UsageError("the arrays of trees have unequal lengths.")
        inner = np.flatnonzero(forest.feature != LEAF)
        children = np.concatenate([forest.left[inner], forest.right[inner]])
        # Each node is above those that it leads to: so every path ends.
        ordered = (children > np.concatenate([inner, inner])).all() and (children < nodes).all()
        rooted = ((forest.roots >= 0) & (forest.roots < nodes)).all()
        if not (ordered and rooted and (forest.feature >= LEAF).all()):
            raise UsageError("the arrays of trees lead out of themselves or back.")
        return forest


class TreesPredictor(ProbabilityModel):
    """Trees on dense features.

    Args:
        features, components: How samples become features.
        forest: The trees.
        start: Outputs before the first tree, (O,).
        fill: Value for a missing feature, (D,); None leaves it missing.
        link: Function from outputs to probabilities; ``mean`` = outputs of T trees are summed probabilities or
            values.
    """

    form = "trees"

    def __init__(
        self,
        features: DenseFeatures,
        components: Sequence[NDArray[np.float64]],
        forest: Forest,
        start: NDArray[np.float64],
        fill: NDArray[np.float64] | None,
        link: Link | Literal["mean"],
    ) -> None:
        self.features, self.components, self.forest = features, list(components), forest
        self.start, self.fill, self.link = start, fill, link

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        table = self.features.read(samples, self.components)
        if self.fill is not None:  # scikit-learn's forests compare in single precision
            table = np.where(np.isnan(table), self.fill, table).astype(np.float32).astype(np.float64)
        outputs = self.forest.outputs(table, len(self.start))
        if self.link == "mean":
            return outputs / len(self.forest.roots)
        return probabilities(outputs + self.start, self.link)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        facts = {"features": self.features.model_dump(mode="json"), "link": self.link, "outputs": len(self.start)}
        arrays = {**self.forest.arrays(), "start": self.start}
        arrays |= {f"components_{place}": array for place, array in enumerate(self.components)}
        return facts, arrays if self.fill is None else {**arrays, "fill": self.fill}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        known = validate(_TreesFacts, dict(facts), what="a model of trees")
        forest, start = Forest.read(arrays), taken(arrays, "start", 1)
        components = [taken(arrays, f"components_{place}", 2) for place in range(len(known.features.terms))]
        widths = {1, len(start)}
        if len(start) != known.outputs or (forest.target >= len(start)).any() or forest.value.shape[1] not in widths:
            raise UsageError(f"trees for {known.outputs} outputs have values {forest.value.shape}.")
        fill = taken(arrays, "fill", 1) if "fill" in arrays else None
        return cls(known.features, components, forest, start, fill, known.link)
