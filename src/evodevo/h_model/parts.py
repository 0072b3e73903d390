"""The parts of an H-Model, and the properties that may be set on it; ``model.HModel`` adds the passes.

Code in other files (halting early, growing, tracing) depends on this class alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model import halting
from evodevo.h_model.carried.core import CarriedCore
from evodevo.h_model.core import RoutingState
from evodevo.h_model.cores import build_core
from evodevo.h_model.routes.reader import RouteReader
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.runners.choice import RunnerName, build_runner
from evodevo.h_model.spec import HModelStructure, imposed
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.networks.base import Batch
from evodevo.networks.inputs import Inputs
from evodevo.networks.newborns import newborns, read_newborns
from evodevo.networks.outputs import Outputs
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.writer import LayeredNetwork
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

LARGEST_T = 4096


@dataclass
class IterationOutput:
    """The result of a pass after some iteration.

    Attributes:
        y: (B, O, S, d), divided by its own number of steps.
        masks: (B, O, S), or None.
        flow: state of the pass.
    """

    y: Tensor
    masks: Tensor | None
    flow: RoutingState


class HModelParts(LayeredNetwork):
    """Parts of an H-Model over the inputs and outputs of a task.

    Args:
        structure: layers, routing, iterations; everything but inputs and outputs.
        inputs, outputs: inputs and outputs of the task.

    Attributes:
        iterations: T of every pass; settable, beyond the trained number too.
        halting_counts: (B,) iterations of each sample in the last pass in evaluation mode.
        newborn_rates: place of a hidden layer -> factor of its learning rate, while it is new; 1 for layers without an
            entry.

    Raises:
        UsageError: a causal model whose outputs are not tokens of its input, no input or output, or hidden layers of an
            output's own that is not there.
    """

    structure: HModelStructure
    adjustable: ClassVar[tuple[str, ...]] = ("iterations", "alpha", "alpha_rate", "inference")

    def __init__(
        self, structure: HModelStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...]
    ) -> None:
        super().__init__(inputs, outputs)
        if structure.causal and any(spec.modality != "tokens" for spec in inputs):
            raise UsageError("a causal H-Model reads tokens; images and vectors have no order of time.")
        if not structure.causal and any(spec.kind == "tokens" for spec in outputs):
            raise UsageError(
                "predicting the next token needs a causal model: set causal = true, or it would read its answer."
            )
        unknown = [entry.output for entry in structure.own if entry.output not in {spec.name for spec in outputs}]
        if unknown:
            raise UsageError(
                f"own names the output {unknown[0]!r}; the model has {', '.join(spec.name for spec in outputs)}."
            )
        self.structure = structure
        self._iterations = structure.iterations
        self._runner: RunnerName = "auto"
        self.newborn_rates: dict[int, float] = {}
        self.inputs = Inputs(
            inputs,
            structure.width,
            structure.input_blocks,
            canvas=structure.canvas,
            slots=structure.slots,
            causal=structure.causal,
            missing=structure.missing,
        )
        self.core = build_core(structure, len(inputs), len(outputs))
        self.outputs = Outputs(outputs, structure.width, structure.output_blocks, causal=structure.causal)
        self.unit = (
            halting.HaltingUnit(structure.width, per_position=structure.causal)
            if structure.halting.rule in ("output_mass", "act", "ponder")
            else None
        )
        self.halting_counts = torch.zeros(0, dtype=torch.long)
        self._reader: RouteReader | None = None
        if structure.carried.routes is not None:
            self._read_routes(structure.carried.routes)

    # What may be set

    def follow(self, routes: RoutesStructure | None, *, imitation: float = 1.0) -> None:
        """Follow given routes in place of the router's own, while its cross-entropy to them is in the loss; or, with
        None, the router's own again.

        Args:
            routes: the table.
            imitation: weight of the cross-entropy, in nats, mean over iterations.

        Raises:
            UsageError: no carried stream with one layer at a time and a router, or a table that does not fit.
        """
        structure = self.structure
        if structure.stream != "carried" or structure.carried.routes is not None:
            raise UsageError("a router can follow given routes in a carried stream only, and not where they stand.")
        if routes is None:
            self._reader = None
            return
        if structure.carried.most != 1:
            raise UsageError(
                f"given routes lead through one layer at a time, and {structure.carried.most} may run here; take "
                "carried.m = 1."
            )
        imposed(structure, routes)  # refuses what does not fit
        cast(CarriedCore, self.core).imitation = imitation
        self._read_routes(routes)

    @property
    def follows(self) -> bool:
        """Whether given routes take the place of the router's own; see ``follow``."""
        return self._reader is not None and self.structure.carried.routes is None

    def _read_routes(self, routes: RoutesStructure) -> None:
        routes.check(self.input_specs)
        device = next(self.parameters()).device
        self._reader = RouteReader(routes).to(device)

    def check_routes(self, new: Callable[[int], int | None], structure: HModelStructure | None = None) -> None:
        """Raise ``UsageError`` where the table that is followed does not go with a change of the layers.

        Args:
            new: place of each layer after the change; None for one that is there no longer.
            structure: structure after the change; looked at if given.
        """
        if self._reader is not None:
            moved = self._reader.routes.moved(new)
            if structure is not None and self.follows:
                imposed(structure, moved)

    def move_routes(self, new: Callable[[int], int | None]) -> None:
        """Follow the same layers after a change of their places."""
        if self._reader is not None:
            self._read_routes(self._reader.routes.moved(new))

    def routes_of(self, batch: Batch) -> Tensor | None:
        """The given hidden layer of each sample in each iteration, (B, T); None where the router decides."""
        return None if self._reader is None else self._reader(batch)

    @property
    def iterations(self) -> int:
        """T."""
        return self._iterations

    @iterations.setter
    def iterations(self, value: int) -> None:
        if not 0 <= value <= LARGEST_T:
            raise UsageError(f"T is {value}; it must be 0 to {LARGEST_T}.")
        self._iterations = value

    @property
    def inference(self) -> InferenceStructure:
        """Choice of the connections that count in evaluation mode."""
        return self.core.inference

    @inference.setter
    def inference(self, value: InferenceStructure) -> None:
        hidden = self.core.hidden_count
        if self.structure.stream == "carried" and value.mode != "dense":
            raise UsageError(
                f"the carried stream has no inference mode {value.mode}: carried.m and carried.cap bound the work, in "
                "training too."
            )
        if value.mode == "target_topm" and value.m > hidden:
            raise UsageError(f"m is {value.m}; the model has {hidden} hidden layers.")
        if value.mode == "source_topk" and value.k > hidden + len(self.output_specs):
            raise UsageError(f"k is {value.k}; a layer has {hidden + len(self.output_specs)} targets.")
        self.core.inference = value

    @property
    def alpha(self) -> float:
        """The temperature of the routers at t = 0; set it to override the structure's, also at inference."""
        return self.core.alpha_at(0)

    @alpha.setter
    def alpha(self, value: float) -> None:
        if not 0 < value < float("inf"):
            raise UsageError(f"alpha is {value}; it must be above 0.")
        self.core.alpha = value

    @property
    def alpha_rate(self) -> float:
        """The factor of alpha per iteration."""
        return self.core.alpha_rate

    @alpha_rate.setter
    def alpha_rate(self, value: float) -> None:
        if not 0 < value < float("inf"):
            raise UsageError(f"the alpha rate is {value}; it must be above 0.")
        self.core.alpha_rate = value

    def settled(self) -> HModelStructure:
        """See ``Network``: with alpha, its rate and the inference mode that have been set since.

        T stays: embeddings of iterations were made for the structure's.
        """
        changes: dict[str, Any] = {"alpha_rate": self.alpha_rate, "inference": self.inference}
        if self.core.alpha is not None:
            changes["alpha"] = self.core.alpha
        return self.structure.model_copy(update=changes)

    @property
    def runner(self) -> RunnerName:
        """Name of the runner of hidden layers: ``auto``, ``probe``, ``loop``, ``grouped``; see
        ``runner_choice.build_runner``."""
        return self._runner

    @runner.setter
    def runner(self, value: RunnerName) -> None:
        self.core.runner = build_runner(value)
        self._runner = value

    def set_progress(self, share: float) -> None:
        """See ``Network``; alpha is annealed along it."""
        self.core.set_progress(share)

    @property
    def progress(self) -> float:
        """Share of the budget that the step which is made now uses up; of the last one between two."""
        return self.core.progress

    def learning_rates(self) -> dict[str, float]:
        """See ``Network``: newborn layers learn at rates of their own."""
        return {f"core.layers.{place}.": factor for place, factor in self.newborn_rates.items()}

    @property
    def births(self) -> dict[int, float | Tensor]:
        """Place of a newborn hidden layer -> its birth factor; see ``HCore``."""
        return self.core.births

    @births.setter
    def births(self, factors: dict[int, float | Tensor]) -> None:
        self.core.births = factors

    def state_extras(self) -> dict[str, Any]:
        """See ``Network``: hidden layers that are half born."""
        return newborns(self.births)

    def take_state_extras(self, extras: Mapping[str, Any]) -> None:
        """See ``Network``."""
        self.births = {int(place): factor for place, factor in read_newborns(extras).births.items()}

    @abstractmethod
    def trace(self, batch: Batch) -> RoutingTrace:
        """Trace of a pass in evaluation mode: every connection of every iteration."""
