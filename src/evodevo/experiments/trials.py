"""Trainings to compare, as plain data: network, training, and role in the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
from pydantic import Field

from evodevo import canonical
from evodevo.errors import GenomeError, UsageError
from evodevo.networks.spec import NetworkSpec
from evodevo.search.space import Space
from evodevo.settings import Settings, validate

Role = Literal["h_model", "transformer", "universal", "zoo", "opponent", "control", "other"]
Cell = dict[str, str | float]
_LABELS = frozenset({"name", "role", "cell", "parent"})
_MAX_CHARACTERS = 4 << 20


class Variant(Settings):
    """One thing that an experiment compares; trained with every learning rate and every seed.

    Attributes:
        name: name in tables; arms of one name and different cells are one line of a sweep.
        role: h_model; transformer and universal are its opponents; zoo, and opponent of a zoo; control (routing without
            choice); other.
        network: the network that is built.
        cell: values that the sweep varies, by name, for display ({"alpha": 0.3}); the network has them already.
        learning_rates: learning rates of this arm alone; those of the experiment if left out.
        seeds: number of seeds of this arm alone; that of the experiment if left out.
        task: settings that replace the experiment's, for this arm.
        training: training settings that replace the experiment's, for this arm.
        procedure: a row of ``experiments.procedures``, by which the network is trained.
        options: options of the procedure.
        parent: the individual that is trained again, if it is one.
    """

    name: str = Field(min_length=1, max_length=60)
    role: Role = "other"
    network: NetworkSpec
    cell: Cell = Field(default_factory=dict)
    learning_rates: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    seeds: int | None = Field(default=None, ge=1, le=1000)
    task: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    procedure: str = "train"
    options: dict[str, Any] = Field(default_factory=dict)
    parent: str | None = None


class Trial(Settings):
    """One training: an arm with its learning rate and the number of its seed. Fields as in ``Variant``."""

    name: str = Field(min_length=1, max_length=60)
    role: Role = "other"
    network: NetworkSpec
    cell: Cell = Field(default_factory=dict)
    learning_rate: float = Field(gt=0)
    seed: int = Field(default=0, ge=0, lt=2**31)
    task: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    procedure: str = "train"
    options: dict[str, Any] = Field(default_factory=dict)
    parent: str | None = None

    def __hash__(self) -> int:
        return hash(canonical.dumps(self.model_dump(mode="json")))

    @property
    def title(self) -> str:
        """``H-Model, alpha 0.3, lr 0.001, seed 0``."""
        return ", ".join([self.group, f"lr {self.learning_rate:g}", f"seed {self.seed}"])

    @property
    def group(self) -> str:
        """Name and cell: what is compared, whatever the learning rate and the seed."""
        return ", ".join([self.name, *(f"{name} {show_value(value)}" for name, value in self.cell.items())])

    def describe(self) -> list[str]:
        """The training in sentences."""
        how = f"Trained by {self.procedure!r} at learning rate {self.learning_rate:g}, seed {self.seed}."
        return [f"{self.group} ({self.role.replace('_', '-')}).", *self.network.describe(), how]


def show_value(value: str | float) -> str:
    """A cell's value as people write it."""
    return value if isinstance(value, str) else f"{value:g}"


def expand(plans: Sequence[Variant], learning_rates: Sequence[float], seeds: int) -> list[Trial]:
    """Every training, seed by seed, so that a run that is cut short has compared all arms on the first seeds."""
    shared = {"learning_rates", "seeds"}
    most = max((plan.seeds or seeds for plan in plans), default=0)
    return [
        Trial.model_validate({**plan.model_dump(exclude=shared), "learning_rate": rate, "seed": seed})
        for seed in range(most)
        for plan in plans
        if seed < (plan.seeds or seeds)
        for rate in (learning_rates if plan.learning_rates is None else plan.learning_rates)
    ]


class FixedTrials(Space[Trial]):
    """The trainings of an experiment. They are given: nothing is drawn, mutated or crossed here.

    Two arms whose labels alone differ are one training and have one hash.
    """

    name = "arm"

    def repair(self, genome: Trial, rng: np.random.Generator) -> Trial:
        return genome

    def check(self, genome: Trial) -> None:
        return None

    def segments(self, genome: Trial) -> tuple[Trial, ...]:
        return (genome,)

    def join(self, segments: Sequence[Any]) -> Trial:
        if len(segments) != 1 or not isinstance(segments[0], Trial):
            raise GenomeError(f"a training is one segment; got {len(segments)}.")
        return segments[0]

    def hash(self, genome: Trial) -> str:
        genes = self._to_genes(genome)
        return canonical.digest({name: value for name, value in genes.items() if name not in _LABELS})

    def title(self, genome: Trial) -> str:
        return genome.title

    def print(self, genome: Trial) -> str:
        return canonical.dumps(self._to_genes(genome))

    def parse(self, text: str) -> Trial:
        try:
            return self._from_genes(canonical.loads(text, what="a training", max_bytes=_MAX_CHARACTERS))
        except GenomeError:
            raise
        except UsageError as error:
            raise GenomeError(str(error)) from None

    def _sample(self, rng: np.random.Generator) -> Trial:
        self._refuse()

    def _mutate(self, genome: Trial, rng: np.random.Generator) -> Trial:
        self._refuse()

    def _crossover(self, a: Trial, b: Trial, rng: np.random.Generator) -> tuple[Trial, Trial]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError("the trainings of an experiment are given by its recipe; a search needs another space.")

    def _to_genes(self, genome: Trial) -> Any:
        return genome.model_dump(mode="json")

    def _from_genes(self, genes: Any) -> Trial:
        if not isinstance(genes, dict):
            raise GenomeError("the genes of a training are an object with its settings.")
        try:
            return validate(Trial, genes, what="a training")
        except UsageError as error:
            raise GenomeError(str(error)) from None
