"""A trained network of a race, as it is used and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.estimators.automatic.networks.arms import ArmStructure
from evodevo.estimators.automatic.networks.data import NetworkSamples
from evodevo.estimators.automatic.networks.judging import Kind, as_probabilities, build_arm, logits_of, output_of
from evodevo.estimators.automatic.networks.quantity import ValueScale
from evodevo.estimators.automatic.networks.reading import NetworkReading
from evodevo.multitask.paths.convolution.spec import role_parameters
from evodevo.settings import Settings, validate
from evodevo.training.precision import decide


class WrittenNetwork(Settings):
    """The source of a network in an exported folder.

    Attributes:
        file: Name of its Python file, without the ending.
        inputs: Inputs in the order in which the file takes them.
        computed: Tensors that were computed when it was written, as nested lists.
    """

    file: str
    inputs: tuple[str, ...]
    computed: dict[str, Any]


class NetworkFacts(Settings):
    """What is kept of a network beside its weights.

    Attributes:
        structure, reading: The network, and how it reads samples.
        kind, classes: Kind and number of its answers.
        scale: Of a quantity, how its values are standardised.
        written: Its source, where it has a file of its own.
    """

    format: Literal["evodevo.network_predictor/2"] = "evodevo.network_predictor/2"
    structure: ArmStructure
    reading: NetworkReading
    kind: Kind
    classes: int
    scale: ValueScale | None = None
    written: WrittenNetwork | None = None

    def answers(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logits (n, C) as probabilities, or as the values of a quantity."""
        found = as_probabilities(self.kind, logits)
        return found if self.scale is None else self.scale.values(found)


class NetworkPredictor:
    """A trained network with the reading of its inputs, on the CPU.

    Args:
        facts: Description of the network.
        network: The network; it is not trained any more.

    Attributes:
        facts: See the arguments.
        network: The network, on the CPU, in evaluation mode.
    """

    def __init__(self, facts: NetworkFacts, network: nn.Module) -> None:
        self.facts = facts
        self.network = network.to("cpu").eval()

    def probabilities(self, samples: NetworkSamples) -> NDArray[np.float64]:
        """Probabilities (n, classes): of classes, where each row sums to 1, or of labels; or values, (n, 1).

        Raises:
            UsageError: Images or numbers of other shapes than in the training samples.
        """
        if not len(samples):
            return np.zeros((0, self.facts.classes))
        arrays = self.facts.reading.read(samples)
        logits = logits_of(self.network, arrays, np.arange(len(samples)), decide("cpu"))
        return self.facts.answers(logits)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON-able facts, and arrays by name: weights and buffers."""
        tensors = self.network.state_dict()
        return self.facts.model_dump(mode="json"), {name: tensor.numpy().copy() for name, tensor in tensors.items()}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The predictor that ``to_state`` described.

        Raises:
            UnsafeFileError: Facts or arrays of something else.
        """
        try:
            read = validate(NetworkFacts, dict(facts), what="a kept network")
            if (read.kind == "quantity") != (read.scale is not None):
                raise UsageError("a network has a scale of values where it answers with a quantity, and only there.")
            root = None if read.structure.plain is None else read.structure.plain.root
            # Before anything as large as the structure claims is made.
            if root is not None and sum(role_parameters(root).values()) > sum(one.size for one in arrays.values()):
                raise UsageError("its arrays are fewer than those of its root.")
            network = build_arm(read.structure, read.reading, output_of(read.kind, read.classes), seed=0)
            own = network.state_dict()
            for name, tensor in own.items():
                given = arrays.get(name)
                if given is None or given.dtype != tensor.numpy().dtype or given.shape != tuple(tensor.shape):
                    raise UsageError(f"the array {name!r} is missing, or of another shape or type.")
                if not np.isfinite(given).all():
                    raise UsageError(f"the array {name!r} holds NaN or infinity.")
            more = sorted(set(arrays) - set(own))
            if more:
                raise UsageError(f"the network has no array {more[0]!r}.")
            network.load_state_dict({name: torch.from_numpy(arrays[name].copy()) for name in own})
        except (UsageError, RuntimeError, ValueError, TypeError) as error:
            raise UnsafeFileError(f"no network of this evodevo: {error}") from None
        return cls(read, network)
