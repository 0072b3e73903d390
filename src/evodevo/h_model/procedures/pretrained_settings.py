"""Options of the procedure ``pretrained``, without torch: which donors, which of their layers, how they begin."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.experiments.settings import NetworkEvaluationSettings, procedure_options
from evodevo.experiments.trials import Trial
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.ensemble import EnsembleNetwork
from evodevo.networks.stacks.spec import EnsembleStructure, StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.pretrained import PretrainedLayer
from evodevo.operators.pretrained.spec import PretrainedSizes, read_sizes
from evodevo.settings import Settings, validate


class DonorSettings(Settings):
    """A small encoder that is pretrained here.

    Attributes:
        width, layers, heads: sizes of the encoder.
    """

    width: int = Field(ge=2, le=4096)
    layers: int = Field(ge=1, le=64)
    heads: int = Field(default=4, ge=1, le=256)


class PretrainingSettings(Settings):
    """The pretraining of donors by masked language modelling on the training texts of the task.

    Attributes:
        steps: number of training steps.
        batch: number of windows of a step, each as long as the task's input.
        learning_rate: highest learning rate of the schedule.
        seed: seed of weights, windows and masks; all arms and seeds of an experiment share their donors.
    """

    steps: int = Field(default=300, ge=1)
    batch: int = Field(default=32, ge=1, le=4096)
    learning_rate: float = Field(default=1e-3, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**31)


class PretrainedOptions(Settings):
    """The layers of a network that are taken from pretrained encoders; its inputs and outputs are always fresh.

    Attributes:
        donors: encoders that are pretrained here, where no paths are given.
        paths: folders with config.json and model.safetensors, or names in the local Hugging Face cache.
        pretraining: settings of the donors' pretraining.
        layers: (donor, layer) for each layer of the network in order; the arm's own layers give the shape alone.
        whole: instead, the donor whose layers are all taken, for a stack; one for each member of an ensemble. The
            stack gets its width and its number of layers.
        train: ``all`` fine-tunes the layers, ``none`` freezes them; adapters, routers, inputs and outputs are trained.
        adapters: initialisation of adapters: ``least_squares`` (3.5-11) or ``orthogonal``.
        embeddings: initialisation of the embeddings of tokens and positions: ``fresh``, or those of a whole ``donor``,
            as near as sums come to them.
        shuffled: each layer has the place and the adapters of another one of its donor.
        tokens: number of tokens for the least squares.
    """

    donors: tuple[DonorSettings, ...] = ()
    paths: tuple[str, ...] = ()
    pretraining: PretrainingSettings = PretrainingSettings()
    layers: tuple[tuple[int, int], ...] = ()
    whole: tuple[int, ...] = ()
    train: Literal["none", "all"] = "all"
    adapters: Literal["least_squares", "orthogonal"] = "least_squares"
    embeddings: Literal["fresh", "donor"] = "fresh"
    shuffled: bool = False
    tokens: int = Field(default=1000, ge=1, le=100_000)

    @model_validator(mode="after")
    def _its_choice_is_clear(self) -> Self:
        count = len(self.paths or self.donors)
        if not count:
            raise ValueError("no donor: give donors to be pretrained here, or paths")
        if bool(self.layers) == bool(self.whole):
            raise ValueError("give either layers, as (donor, layer), or whole, as donors")
        unknown = [donor for donor in (*(donor for donor, _ in self.layers), *self.whole) if not 0 <= donor < count]
        if unknown:
            raise ValueError(f"donor {unknown[0]} does not exist; there are {count}, from 0")
        if self.whole and self.shuffled:
            raise ValueError("a whole donor has its layers in order; shuffled goes with layers")
        if self.layers and self.embeddings == "donor":
            raise ValueError("embeddings of a donor have its width; they go with whole")
        return self

    @property
    def needed(self) -> tuple[int, ...]:
        """The donors that are used, in order."""
        return tuple(sorted({donor for donor, _ in self.layers} | set(self.whole)))


def options_of(settings: NetworkEvaluationSettings, arm: Trial) -> PretrainedOptions:
    """The options of an arm.

    Raises:
        UsageError: a wrong one.
    """
    values = procedure_options(settings, arm)
    return validate(PretrainedOptions, values, what=f"options of the procedure 'pretrained' of {arm.name}")


def check_pretrained(settings: NetworkEvaluationSettings, arm: Trial) -> None:
    """Whether an arm can begin, as far as it can be known before donors are made.

    Raises:
        UsageError: options that do not fit each other or the network.
        NotFoundError, DataError: a path without a model.
    """
    options = options_of(settings, arm)
    for path in options.paths:
        read_sizes(path)
    places = tuple(donor.width for donor in options.donors)
    for donor in () if options.paths else options.donors:
        if donor.width % donor.heads:
            raise UsageError(
                f"{donor.heads} attention heads do not divide the donor's width {donor.width} of {places}."
            )
    sizes = {number: donor_sizes(options, number) for number in options.needed}
    with_layers(arm.network, options, dict.fromkeys(sizes, "donor"), sizes, dict.fromkeys(sizes))


def donor_sizes(options: PretrainedOptions, number: int) -> PretrainedSizes:
    """The sizes of a donor, made or not."""
    if options.paths:
        return read_sizes(options.paths[number])
    donor = options.donors[number]
    return PretrainedSizes("bert", donor.width, 4 * donor.width, donor.heads, donor.layers)


def with_layers(
    network: NetworkSpec,
    options: PretrainedOptions,
    paths: dict[int, str],
    sizes: dict[int, PretrainedSizes],
    digests: dict[int, str | None],
) -> NetworkSpec:
    """The network with the donors' layers in it.

    Args:
        network: network whose layers give the number of layers and those with adapters.
        options: the donors' layers that are taken.
        paths, sizes, digests: donor -> its folder, its sizes, and the digest of its weights.

    Raises:
        UsageError: another number of layers than the network has, or a layer that the donor does not have.
    """

    def taken(donor: int, index: int, width: int, adapted: bool, router: str | None = None) -> PretrainedLayer:
        size = sizes[donor]
        if not 0 <= index < size.layers:
            raise UsageError(f"layer {index} of donor {donor} does not exist; it has layers 0 to {size.layers - 1}.")
        inner = size.width if adapted or size.width != width else None
        values = {"path": paths[donor], "index": index, "width": inner, "router": router}
        return PretrainedLayer.model_validate({**values, "train": options.train, "digest": digests[donor]})

    def chosen(layers: tuple[Layer, ...], width: int) -> tuple[Layer, ...]:
        if len(layers) != len(options.layers):
            raise UsageError(f"{len(options.layers)} layers of donors are named; the network has {len(layers)}.")
        pairs = zip(options.layers, layers, strict=True)
        return tuple(taken(*choice, width, layer.width is not None, layer.router) for choice, layer in pairs)

    def whole(stack: StackStructure, donor: int) -> StackStructure:
        width = sizes[donor].width
        layers = tuple(taken(donor, index, width, False) for index in range(sizes[donor].layers))
        return stack.model_copy(update={"width": width, "layers": layers})

    if isinstance(network, EnsembleNetwork):
        members = network.structure.members
        if len(members) != len(options.whole):
            raise UsageError(f"an ensemble of {len(members)} stacks needs as many whole donors, not {options.whole}.")
        stacks = tuple(whole(member, donor) for member, donor in zip(members, options.whole, strict=True))
        return EnsembleNetwork(structure=EnsembleStructure(members=stacks))
    if options.whole and isinstance(network, StackNetwork):
        if len(options.whole) != 1:
            raise UsageError(f"one stack takes one whole donor, not {len(options.whole)}.")
        return StackNetwork(structure=whole(network.structure, options.whole[0]))
    if not network.layers:
        raise UsageError(f"a network of kind {network.kind!r} takes no pretrained layers this way.")
    if options.whole:
        raise UsageError("an H-Model takes single layers: name them in layers, as (donor, layer), instead of whole.")
    return network.with_layers(chosen(network.layers, network.structure.width))
