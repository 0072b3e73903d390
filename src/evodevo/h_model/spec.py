"""An H-Model as plain data: its layers, their connections, and the number of iterations (docs/spec/h_model.md).

Legend: B samples, S positions of the canvas, d width, I inputs, H hidden layers, O outputs, N = H + O targets,
T iterations, c connection weights in [0, 1], a inflow of a target (the sum of c over its sources).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, model_serializer, model_validator

from evodevo.h_model.aggregations.base import AggregationKind, Normaliser
from evodevo.h_model.aggregations.sum import SumAggregation
from evodevo.h_model.routes.spec import RoutesStructure
from evodevo.h_model.stored import as_recorded, upgraded
from evodevo.networks.routing.spec import CAUSAL_POOLS, InferenceStructure, Pool, usual_pool
from evodevo.operators.layers.base import Layer, RouterHead
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import Settings, validate

MAX_NESTING = 3
"""Largest nesting depth of H-Models in H-Models."""
BALANCE = 0.02
"""Weight of the loss on balance where a router chooses the layers that run: without it a few may take all samples."""


class RouterStructure(Settings):
    """The router: connection weights from a head on each layer's output.

    Source: docs/spec/h_model.md#what-a-router-reads, docs/spec/h_model.md#gate.

    Attributes:
        head: ``feedforward`` (one hidden layer), ``linear``, ``channel`` (N channels of the layer's own output, for
            convolutions), ``constant`` (c = ``value``, the control without routing), ``independent`` (learned, but
            blind to the input).
        hidden: units of the feed-forward head; a quarter of the width, 8 at least, if left out.
        pool: the part of the output that the head reads. ``token`` and ``prefix_mean`` give one decision per position
            and are the only ones that a causal model allows; left out, attention pooling, or ``token`` where causal.
        gate: ``sigmoid`` (the paper's); ``softmax_out`` over targets; ``softmax_in`` and ``sparsemax_in`` over
            sources; ``gumbel`` (binary concrete noise while training).
        value: connection weight of ``constant``, 0 to 1.
        bias: ``alive`` starts with biases that keep the inflow of small H alive; ``zero`` as printed.
    """

    head: RouterHead = "feedforward"
    hidden: int | None = Field(default=None, ge=1, le=65536)
    pool: Pool | None = None
    gate: Literal["sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel"] = "sigmoid"
    value: float = Field(default=0.5, ge=0, le=1)
    bias: Literal["alive", "zero"] = "alive"

    def units(self, width: int) -> int:
        """Units of the feed-forward head."""
        return self.hidden or max(width // 4, 8)


class HaltingStructure(Settings):
    """The rule by which a sample stops early (docs/spec/h_model.md#halting).

    Attributes:
        rule: ``none``; ``output_mass`` and ``ponder`` (a trained halting unit, the losses of all iterations mixed by
            its distribution; ``ponder`` adds a KL term to a geometric prior); ``act`` (Graves 2016, ponder cost);
            ``kl`` (no training: successive answers hardly differ).
        threshold: mass at which a sample halts (output_mass, ponder, act), or KL in nats (kl).
        weight: weight of the ponder cost or the KL term.
        prior: expected share of halting per iteration (ponder).
    """

    rule: Literal["none", "output_mass", "act", "ponder", "kl"] = "none"
    threshold: float = Field(default=0.95, gt=0, lt=1)
    weight: float = Field(default=0.01, ge=0)
    prior: float = Field(default=0.3, gt=0, lt=1)


class RegularisationStructure(Settings):
    """Losses on the routing and noise while training; every weight 0 is off (docs/spec/h_model.md#routing-losses).

    Attributes:
        balance: weight of the loss on unequal use of hidden layers: squared coefficient of variation of their inflow
            in the paper's stream, Switch's loss on their load in a carried one. Left out, it is 0.02 where a router
            chooses the layers that run, else 0.
        z: mean squared log-sum-exp of router logits.
        sparsity: mean c.
        self_routing: mean c of hidden layers to themselves.
        deep_supervision: weight of the loss after each iteration.
        layer_dropout: chance that a hidden layer is left out of a training step.
        iterations_min, iterations_max: T is drawn uniformly between them in each training step; both or none.
        backprop_last: gradients flow through the last iterations only; all if left out.
    """

    balance: float = Field(default=0.0, ge=0)
    z: float = Field(default=0.0, ge=0)
    sparsity: float = Field(default=0.0, ge=0)
    self_routing: float = Field(default=0.0, ge=0)
    deep_supervision: float = Field(default=0.0, ge=0)
    layer_dropout: float = Field(default=0.0, ge=0, lt=1)
    iterations_min: int | None = Field(default=None, ge=0, le=256)
    iterations_max: int | None = Field(default=None, ge=0, le=256)
    backprop_last: int | None = Field(default=None, ge=1, le=256)

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        low, high = self.iterations_min, self.iterations_max
        if (low is None) != (high is None) or (low is not None and high is not None and low > high):
            raise ValueError("iterations_min and iterations_max go together, the smaller first")
        return self


class CarriedStructure(Settings):
    """Routing of the carried stream (docs/spec/h_model.md#the-carried-stream).

    Attributes:
        m: hidden targets that each source keeps, 1 to 4096.
        cap: hidden layers that run per sample and iteration (per position where connections are decided at each), 1 to
            4096; m if left out.
        source_bias: the shared router has a bias of its own for each source.
        iteration_bias: the shared router has a bias of its own for the input step and each iteration.
        iteration_router: the router has a map of its own for the input step and each iteration.
        routes: routes that are given; there is no router then.
    """

    m: int = Field(default=1, ge=1, le=4096)
    cap: int | None = Field(default=None, ge=1, le=4096)
    source_bias: bool = False
    iteration_bias: bool = False
    # Left out where they are off, so that stored structures are those of before.
    iteration_router: bool = Field(default=False, exclude_if=lambda value: not value)
    routes: RoutesStructure | None = Field(default=None, exclude_if=lambda value: value is None)

    @model_validator(mode="after")
    def _one_way_to_decide(self) -> Self:
        if self.iteration_bias and self.iteration_router:
            raise ValueError("a router with a map for each iteration has its biases; leave iteration_bias out")
        return self

    @property
    def most(self) -> int:
        """The cap, M."""
        return self.cap or self.m

    def fitting(self, layers: int) -> Self:
        """With numbers no larger than so many layers allow."""
        cap = None if self.cap is None else min(self.cap, layers)
        return self.model_copy(update={"m": min(self.m, layers), "cap": cap})


class OwnLayers(Settings):
    """Hidden layers that take part in the answers of one output alone.

    Attributes:
        output: name of the output.
        layers: their indices.
    """

    output: str = Field(min_length=1)
    layers: tuple[int, ...] = Field(min_length=1)


class HModelStructure(Settings):
    """A whole H-Model, without its inputs and outputs, which follow from the task.

    Attributes:
        stream: ``carried`` (layers update a state that is carried along, and only addressed ones run, in training
            too), or ``paper`` (every target gets the weighted sum of the messages that are sent to it).
        carried: routing of the carried stream; see there.
        width: channels d of every message.
        hidden: the hidden layers, in order.
        iterations: T; 0 is allowed (inputs send messages to outputs only).
        causal: no position depends on later ones.
        router: see there.
        input_blocks, output_blocks: layers of kind ``transformer`` inside each input and output layer.
        alpha, alpha_rate: alpha_t = alpha * alpha_rate ** t divides the logits; the input step and the first
            iteration have t = 0.
        alpha_end: alpha at the end of training, reached geometrically; constant if left out.
        normaliser: divisor of the sum of messages: ``sum`` (max(1, a), the default), ``count`` (of c > 0.5),
            ``softmax`` (weights c / a).
        aggregation: Row of ``AGGREGATIONS``: ``sum`` (the paper's), or ``attention`` with source identity (3.5-1).
        inflow_gate: c of a layer is multiplied by min(1, its inflow): a layer without inflow sends nothing.
        iteration_embedding: added to the ``message`` (the paper's), to the ``input``, as ``film``, or ``none``.
        output_division: Y is divided by ``t`` (as printed) or ``t_plus_1``, ``learned`` (weighted), or only ``last``.
        window: largest distance of connected layers along the row of enabled hidden layers; no limit if left out.
        self_routing: a layer may be connected to itself.
        canvas: ``segments`` (each input has its own positions), ``latents`` (each is read into ``slots`` positions),
            ``pad`` (all share positions, as printed).
        slots: number of positions of ``latents``.
        halting, inference, regularisation: see there.
        disabled: indices of hidden layers that are switched off: no layer receives their messages.
        own: hidden layers that take part in the answers of one output alone; each group of outputs with the same layers
            has a pass of its own.
        missing: a sample may lack an input (a learned token replaces it).
        checkpointing: activations of an iteration are computed again in the backward pass.
    """

    # The paper's is left out of records, as in those from when there was no other (``stored``).
    stream: Literal["paper", "carried"] = Field(default="carried", exclude_if=lambda value: value == "paper")
    carried: CarriedStructure = Field(default=CarriedStructure(), exclude_if=lambda value: value == CarriedStructure())
    width: int = Field(default=64, ge=4, le=65536)
    hidden: tuple[Layer, ...] = Field(default=(TransformerLayer(),) * 4, min_length=1, max_length=1024)
    iterations: int = Field(default=4, ge=0, le=256)
    causal: bool = False
    router: RouterStructure = RouterStructure()
    input_blocks: int = Field(default=1, ge=0, le=16)
    output_blocks: int = Field(default=1, ge=0, le=16)
    alpha: float = Field(default=1.0, ge=1e-3, le=1e3)
    alpha_rate: float = Field(default=1.0, gt=0, le=100)
    alpha_end: float | None = Field(default=None, ge=1e-3, le=1e3)
    normaliser: Normaliser = "sum"
    aggregation: AggregationKind = SumAggregation()
    inflow_gate: bool = True
    iteration_embedding: Literal["message", "input", "film", "none"] = "message"
    output_division: Literal["t", "t_plus_1", "learned", "last"] = "t"
    window: int | None = Field(default=None, ge=1, le=1024)
    self_routing: bool = True
    canvas: Literal["segments", "latents", "pad"] = "segments"
    slots: int = Field(default=16, ge=1, le=4096)
    halting: HaltingStructure = HaltingStructure()
    inference: InferenceStructure = InferenceStructure()
    regularisation: RegularisationStructure = RegularisationStructure()
    disabled: tuple[int, ...] = ()
    own: tuple[OwnLayers, ...] = Field(default=(), exclude_if=lambda value: not value)
    missing: bool = False
    checkpointing: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, Mapping):
            return values
        values = upgraded(values)
        if info.mode == "json":
            # What a validator returns is read as Python, where a list is no tuple.
            values = _tuples(values)
            own = values.get("own")
            if isinstance(own, tuple) and all(isinstance(entry, Mapping) for entry in own):
                values["own"] = tuple(map(_tuples, own))
            carried = values.get("carried")
            if isinstance(carried, Mapping) and isinstance(carried.get("routes"), Mapping):
                values["carried"] = {**carried, "routes": _tuples(carried["routes"])}
        return values

    @model_serializer(mode="wrap")
    def _recorded(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return as_recorded(handler(self))

    @model_validator(mode="after")
    def _balanced(self) -> Self:
        """A weight of the loss on balance that nobody has given follows from the stream."""
        chosen = self.stream == "carried" and self.carried.routes is None and self.carried.most < len(self.hidden)
        if chosen and "balance" not in self.regularisation.model_fields_set:
            object.__setattr__(self, "regularisation", _with_usual_balance(self.regularisation, BALANCE))
        return self

    def without_usual_balance(self) -> Self:
        """The same with a weight of 0 of the loss on balance, unless somebody has set the weight."""
        if "balance" in self.regularisation.model_fields_set:
            return self
        return self.model_copy(update={"regularisation": _with_usual_balance(self.regularisation, 0.0)})

    @model_validator(mode="after")
    def _it_can_be_built(self) -> Self:
        pool = self.router.pool
        if self.causal and pool is not None and pool not in CAUSAL_POOLS:
            raise ValueError(
                f"a causal model cannot route by the pool {pool!r}: later tokens would steer earlier ones; use "
                + " or ".join(CAUSAL_POOLS)
            )
        if not self.causal and self.canvas == "latents" and pool in CAUSAL_POOLS:
            raise ValueError("latent slots have no order; use the pool attention, mean or max")
        if self.causal and self.canvas != "segments":
            raise ValueError("a causal model needs the canvas segments: other positions have no order")
        count = len(self.hidden)
        if self.inference.mode == "target_topm" and self.inference.m > count:
            raise ValueError(f"inference.m is {self.inference.m}; there are {count} hidden layers")
        if self.inference.mode == "source_topk" and self.inference.k > count + 1:
            raise ValueError(f"inference.k is {self.inference.k}; a source has {count} hidden layers as targets")
        wrong = [place for place in self.disabled if not 0 <= place < count]
        if wrong or len(set(self.disabled)) != len(self.disabled):
            raise ValueError(f"disabled holds {wrong or 'a place twice'}; hidden layers are 0 to {count - 1}")
        if len(self.disabled) == count:
            raise ValueError("all hidden layers are disabled; leave one, or set iterations = 0")
        self._check_own()
        if self.nesting > MAX_NESTING:
            raise ValueError(f"H-Models are nested {self.nesting} deep; at most {MAX_NESTING}")
        self._check_stream()
        return self

    def absent(self, output: str) -> tuple[int, ...]:
        """Indices of the hidden layers that take no part in the answers of an output, since they are others' own."""
        own = {place for entry in self.own if entry.output == output for place in entry.layers}
        return tuple(sorted({place for entry in self.own for place in entry.layers} - own))

    @property
    def owned(self) -> tuple[int, ...]:
        """Indices of all hidden layers that are some output's own, in order."""
        return tuple(sorted({place for entry in self.own for place in entry.layers}))

    def passes(self, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Absent hidden layers of each pass, for so many outputs; one pass where no layers are an output's own."""
        of_own = {self.absent(entry.output) for entry in self.own}
        return tuple(sorted(of_own | ({self.absent("")} if outputs > len(self.own) else set())))

    def _check_own(self) -> None:
        """Layers of an output's own exist, and leave some to the others; what counts in one pass alone is refused."""
        if not self.own:
            return
        count, live = len(self.hidden), set(range(len(self.hidden))) - set(self.disabled)
        names = [entry.output for entry in self.own]
        wrong = [place for entry in self.own for place in entry.layers if not 0 <= place < count]
        if wrong or len(set(names)) != len(names):
            raise ValueError(f"own holds {wrong or 'an output twice'}; hidden layers are 0 to {count - 1}")
        if not live - {place for entry in self.own for place in entry.layers}:
            raise ValueError("own leaves no hidden layer to the other outputs")
        refused = {
            "a causal model": self.causal,
            "a window": self.window is not None,
            "given routes": self.carried.routes is not None,
            "halting": self.halting.rule != "none",
            "regularisation.deep_supervision": self.regularisation.deep_supervision > 0,
        }
        for words, given in refused.items():
            if given:
                raise ValueError(f"hidden layers of an output's own do not go with {words}; leave one of them out")

    def _check_stream(self) -> None:
        """Settings of one stream that the other does not have are refused, not ignored."""
        if self.stream == "paper":
            if self.carried != CarriedStructure():
                raise ValueError('settings of carried need stream = "carried"')
            return
        if self.carried.m > len(self.hidden) or self.carried.most > len(self.hidden):
            raise ValueError(
                f"carried.m is {self.carried.m} and carried.cap {self.carried.most}; "
                f"there are {len(self.hidden)} hidden layers"
            )
        fields = HModelStructure.model_fields
        foreign = [name for name in _OF_PAPER if getattr(self, name) != fields[name].default]
        if self.router.model_copy(update={"pool": None}) != RouterStructure():
            foreign.append("router (other than its pool)")
        if self.pool == "prefix_mean":
            foreign.append("the pool prefix_mean")
        if any(layer.router is not None for layer in self.hidden):
            foreign.append("routers of single layers")
        if self.regularisation.sparsity:
            foreign.append("regularisation.sparsity")
        if self.inference.mode != "dense":
            foreign.append("inference.mode (carried.m and carried.cap bound the work, in training too)")
        if foreign:
            raise ValueError(
                f"the carried stream does not have {', '.join(foreign)}; leave it out, or use stream = paper"
            )
        if self.carried.routes is not None:
            self._check_routes(self.carried.routes)

    def _check_routes(self, routes: RoutesStructure) -> None:
        """Given routes lead one sample through one layer at a time; what only a router has is refused."""
        count, wanted = len(self.hidden), self.regularisation
        if len(routes.slots) != self.iterations:
            raise ValueError(f"routes.slots holds {len(routes.slots)} places; there are {self.iterations} iterations")
        wrong = [place for place in routes.layers if place >= count or place in self.disabled]
        if wrong:
            raise ValueError(f"routes.layers holds {wrong[0]}; it names enabled hidden layers, of 0 to {count - 1}")
        if self.causal or self.pool in CAUSAL_POOLS:
            raise ValueError("routes are given for whole samples, and a causal model decides at each position")
        plain = {
            "carried": self.carried == CarriedStructure(routes=routes),
            "router": self.router == RouterStructure(),
            "alpha": self.alpha == 1 and self.alpha_rate == 1 and self.alpha_end is None,
            "self_routing": self.self_routing,
            "window": self.window is None,
            "missing": not self.missing,
            "regularisation": not (wanted.balance or wanted.z or wanted.self_routing or wanted.layer_dropout),
        }
        foreign = [name for name, fits in plain.items() if not fits]
        if foreign:
            raise ValueError(f"a model with given routes has no router; leave out the settings {', '.join(foreign)}")

    @property
    def nesting(self) -> int:
        """Depth of H-Models in H-Models; 1 without any inside."""
        return 1 + max(layer.nesting for layer in self.hidden)

    @property
    def pool(self) -> Pool:
        """The pool that routers read."""
        return self.router.pool or usual_pool(causal=self.causal)


def _with_usual_balance(losses: RegularisationStructure, weight: float) -> RegularisationStructure:
    """With a weight of the loss on balance that counts as not set."""
    values = {**dict(losses), "balance": weight}
    return RegularisationStructure.model_construct(losses.model_fields_set, **values)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with tuples for lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


_OF_PAPER = ("normaliser", "aggregation", "inflow_gate", "output_division")
"""Fields that count with the paper's stream alone."""

Preset = Literal["wide", "deep", "balanced", "full"]
PRESETS: dict[Preset, tuple[int, int]] = {"wide": (10, 2), "deep": (2, 10), "balanced": (4, 4), "full": (10, 10)}
"""Name -> (hidden layers, iterations)."""


def preset(name: Preset, *, layer: Layer | None = None, **options: object) -> HModelStructure:
    """A structure of a preset's size with equal layers; ``options`` are fields of ``HModelStructure``."""
    count, iterations = PRESETS[name]
    values = {"hidden": ((layer or TransformerLayer()),) * count, "iterations": iterations, **options}
    return HModelStructure.model_validate(values)


def imposed(structure: HModelStructure, routes: RoutesStructure) -> HModelStructure:
    """The same layers under given routes, without a router and without the losses on what it does.

    Raises:
        UsageError: the routes do not fit the structure, or it is none of a carried stream.
    """
    losses = {"balance": 0.0, "z": 0.0, "self_routing": 0.0}
    values = {
        **structure.model_dump(mode="json"),
        "carried": {"routes": routes.model_dump(mode="json")},
        "router": {},
        "alpha": 1.0,
        "alpha_rate": 1.0,
        "alpha_end": None,
        "regularisation": {**structure.regularisation.model_dump(mode="json"), **losses},
    }
    return validate(HModelStructure, values, what="an H-Model with given routes")


def paper(structure: HModelStructure) -> HModelStructure:
    """The same layers as the paper prints it: no inflow gate, biases 0, sum over max(1, a).

    Source: docs/spec/h_model.md#forward-pass.
    """
    router = structure.router.model_copy(update={"bias": "zero", "gate": "sigmoid"})
    # A weight for one stream is none for the other, unless it was set.
    structure = structure.without_usual_balance() if structure.stream == "carried" else structure
    return structure.model_copy(
        update={
            "stream": "paper",
            "carried": CarriedStructure(),
            "router": router,
            "inflow_gate": False,
            "normaliser": "sum",
            "aggregation": SumAggregation(),
            "iteration_embedding": "message",
            "output_division": "t",
        }
    )
