"""The space of H-Models: layers, number of iterations, connections, and the connections skipped at inference.

Everything that a genome leaves open (width, causality, routers, canvas, regularisation) is the space's template, a
whole ``HModelStructure``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from evodevo.errors import GenomeError, UsageError, quoted_list
from evodevo.h_model.aggregations.base import usual
from evodevo.h_model.cost import h_model_cost
from evodevo.h_model.genome import (
    MAX_HIDDEN,
    THOUSAND,
    GeneMode,
    HModelGenome,
    genes_of,
    genome_of,
    not_allowed,
    parse_genome,
    print_genome,
)
from evodevo.h_model.space_settings import (
    OF_CARRIED,
    HModelSpaceSettings,
    checked_range,
    choices,
    named_layers,
    thousandths,
)
from evodevo.h_model.spec import PRESETS, HModelStructure, RegularisationStructure
from evodevo.networks.canvas import InputSizes, OutputSizes
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.cost import Cost, Mode
from evodevo.search.space import Space

SCALARS = tuple(field.name for field in fields(HModelGenome) if field.name not in ("mode", "amount", "layers"))
# Wide, deep and balanced (H-Model 6.2); the fourth, (10, 10), is for large machines.
KNOWN = ("wide", "deep", "balanced")


class HModelSpace(Space[HModelGenome]):
    """H-Models over the layers, numbers and modes that the settings allow.

    Two genomes are one model where their layers differ in order only and no window gives order a meaning, where they
    differ in an alpha rate that is never used (T = 1), and where the inference mode keeps everything.
    """

    name = "h_model"
    version = 1

    def __init__(self, settings: HModelSpaceSettings | None = None) -> None:
        """
        Raises:
            UsageError: an unknown layer or aggregation, a layer that the width does not allow, or a range or choice
                that is empty or out of bounds.
        """
        self.settings = settings or HModelSpaceSettings()
        template = self.settings.structure
        for name in ("disabled", "own"):
            if getattr(template, name):
                raise UsageError(
                    f"structure.{name} names places of hidden layers, which a genome does not have; clear it."
                )
        self.layers = named_layers(self.settings)
        self.counts = checked_range("hidden_range", self.settings.hidden_range, MAX_HIDDEN)
        iterations = checked_range("iterations_range", self.settings.iterations_range, 256)
        self._choices: dict[str, tuple[Any, ...]] = {
            "iterations": tuple(range(iterations[0], iterations[1] + 1)),
            "alpha": thousandths("alphas", self.settings.alphas, 1, 1000 * THOUSAND),
            "alpha_rate": thousandths("alpha_rates", self.settings.alpha_rates, 1, 100 * THOUSAND),
            "aggregation": choices("aggregations", self.settings.aggregations),
            "window": choices("windows", self.settings.windows),
        }
        for name in self.settings.aggregations:
            usual(name)  # refuses an unknown one
        if min(self._choices["window"]) < 0 or max(self._choices["window"]) > 1024:
            raise UsageError(f"windows are {self.settings.windows}; they must be 0 to 1024.")
        self.modes = choices("modes", self.settings.modes)
        self._thresholds: tuple[int, ...] = ()
        if "threshold" in self.modes:
            self._thresholds = thousandths("thresholds", self.settings.thresholds, 1, THOUSAND)
        if template.stream == "carried":
            self._check_carried()

    def _check_carried(self) -> None:
        """Raise ``UsageError`` for genes that the carried stream does not have."""
        for name, values in OF_CARRIED.items():
            given = tuple(getattr(self.settings, name))
            if given != values:
                raise UsageError(f"{name} are {list(given)}; the carried stream of structure has {list(values)} alone.")
        if self.settings.structure.carried.routes is not None:
            raise UsageError(
                "structure.carried.routes names places of hidden layers, which a genome does not have; leave it out."
            )
        most = self.settings.structure.carried.most
        if most > self.counts[0]:
            raise UsageError(f"structure.carried lets {most} layers run; hidden_range begins at {self.counts[0]}.")

    # Validity

    def check(self, genome: HModelGenome) -> None:
        """Raise ``GenomeError`` for the first gene that is not allowed."""
        low, high = self.counts
        if not low <= len(genome.layers) <= high:
            raise GenomeError(f"an H-Model of this space has {low} to {high} hidden layers, not {len(genome.layers)}.")
        for place, name in enumerate(genome.layers, 1):
            if name not in self.layers:
                raise GenomeError(f"layer {place} is {name[:40]!r}; allowed: {quoted_list(self.layers)}.")
        if genome.mode not in self.modes:
            raise GenomeError(f"the inference mode is {genome.mode!r}; allowed: {quoted_list(self.modes)}.")
        for gene in (*SCALARS, "amount"):
            allowed = self._allowed(gene, genome)
            if getattr(genome, gene) not in allowed:
                raise GenomeError(not_allowed(gene, genome, allowed))

    def _allowed(self, gene: str, genome: HModelGenome) -> tuple[Any, ...]:
        """Values that a gene may have beside the others of this genome."""
        count = len(genome.layers)
        if gene == "amount":
            every = tuple(range(1, count + 1))
            return {"dense": (0,), "threshold": self._thresholds}.get(genome.mode, every)
        if gene == "window":
            return tuple(w for w in self._choices[gene] if w < count or w == 0) or (0,)
        return self._choices[gene]

    def repair(self, genome: HModelGenome, rng: np.random.Generator) -> HModelGenome:
        """Layers too many go, too few and unknown ones are drawn; a number becomes the nearest one that is allowed."""
        low, high = self.counts
        names = list(self.layers)
        layers = [name if name in self.layers else str(rng.choice(names)) for name in genome.layers[:high]]
        layers += [str(rng.choice(names)) for _ in range(low - len(layers))]
        mode = genome.mode if genome.mode in self.modes else self.modes[int(rng.integers(len(self.modes)))]
        mended = replace(genome, layers=tuple(layers), mode=mode)
        for gene in (*SCALARS, "amount"):
            value, allowed = getattr(mended, gene), self._allowed(gene, mended)
            if value not in allowed:
                number = isinstance(value, int)
                near = min(allowed, key=lambda other: abs(other - value)) if number else allowed[0]
                mended = replace(mended, **{gene: near})
        return mended

    # Drawing

    def initial(self, rng: np.random.Generator) -> HModelGenome | None:
        """A preset (wide, deep or balanced) as far as the ranges allow, all of transformers, alpha 1, dense.

        Where the space has no transformers, its first layer is taken instead.
        """
        count, iterations = PRESETS[KNOWN[int(rng.integers(len(KNOWN)))]]  # type: ignore[index]
        low, high = self.counts
        name = "transformer" if "transformer" in self.layers else next(iter(self.layers))
        mode: GeneMode = "dense" if "dense" in self.modes else self.modes[0]
        layers = (name,) * min(max(count, low), high)
        amount = 0 if mode == "dense" else len(layers)
        return self.repair(HModelGenome(iterations, mode=mode, amount=amount, layers=layers), rng)

    def _sample(self, rng: np.random.Generator) -> HModelGenome:
        low, high = self.counts
        count = int(rng.integers(low, high + 1))
        layers = tuple(str(name) for name in rng.choice(list(self.layers), size=count))
        genome = HModelGenome(1, layers=layers)
        for gene in SCALARS:
            genome = replace(genome, **{gene: _draw(self._allowed(gene, genome), rng)})
        return self._with_mode(genome, _draw(self.modes, rng), rng)

    def _with_mode(self, genome: HModelGenome, mode: GeneMode, rng: np.random.Generator) -> HModelGenome:
        changed = replace(genome, mode=mode)
        return replace(changed, amount=_draw(self._allowed("amount", changed), rng))

    def _mutate(self, genome: HModelGenome, rng: np.random.Generator) -> HModelGenome:
        """One change: a number, the inference mode or its amount, a layer added, removed, replaced, or two swapped."""
        possible: list[HModelGenome] = [*self._changed_genes(genome, rng), *self._changed_layers(genome, rng)]
        return possible[int(rng.integers(len(possible)))] if possible else genome

    def _changed_genes(self, genome: HModelGenome, rng: np.random.Generator) -> list[HModelGenome]:
        """For each gene that has another value a genome with one of them."""
        changed = []
        for gene in (*SCALARS, "amount"):
            others = tuple(value for value in self._allowed(gene, genome) if value != getattr(genome, gene))
            if others:
                changed.append(replace(genome, **{gene: _draw(others, rng)}))
        modes = tuple(mode for mode in self.modes if mode != genome.mode)
        if modes:
            changed.append(self._with_mode(genome, _draw(modes, rng), rng))
        return changed

    def _changed_layers(self, genome: HModelGenome, rng: np.random.Generator) -> list[HModelGenome]:
        """For each kind of change that is possible a genome with one."""
        low, high = self.counts
        layers, names = genome.layers, tuple(self.layers)
        place = int(rng.integers(len(layers)))
        changed: list[tuple[str, ...]] = []
        if len(layers) < high:
            before = int(rng.integers(len(layers) + 1))
            changed.append((*layers[:before], _draw(names, rng), *layers[before:]))
        if len(layers) > low:
            changed.append(layers[:place] + layers[place + 1 :])
        others = tuple(name for name in names if name != layers[place])
        if others:
            changed.append((*layers[:place], _draw(others, rng), *layers[place + 1 :]))
        unlike = [other for other, name in enumerate(layers) if name != layers[place]]
        if unlike:
            other, swapped = unlike[int(rng.integers(len(unlike)))], list(layers)
            swapped[place], swapped[other] = swapped[other], swapped[place]
            changed.append(tuple(swapped))
        return [replace(genome, layers=new) for new in changed]

    def _crossover(
        self, a: HModelGenome, b: HModelGenome, rng: np.random.Generator
    ) -> tuple[HModelGenome, HModelGenome]:
        """The layers change owner behind one cut, every other gene with chance one half; mode and amount together."""
        left, right = genes_of(a), genes_of(b)
        for group in (*((gene,) for gene in SCALARS), ("mode", "amount")):
            if rng.random() < 0.5:
                for gene in group:
                    left[gene], right[gene] = right[gene], left[gene]
        cut = int(rng.integers(min(len(a.layers), len(b.layers)) + 1))
        left["layers"] = a.layers[:cut] + b.layers[cut:]
        right["layers"] = b.layers[:cut] + a.layers[cut:]
        return HModelGenome(**left), HModelGenome(**right)

    # Comparing

    def segments(self, genome: HModelGenome) -> tuple[Any, ...]:
        """The genes in order, mode with amount, then one segment per layer."""
        return (*(getattr(genome, gene) for gene in SCALARS), (genome.mode, genome.amount), *genome.layers)

    def join(self, segments: Sequence[Any]) -> HModelGenome:
        """The inverse of ``segments``."""
        *scalars, (mode, amount) = segments[: len(SCALARS) + 1]
        values = dict(zip(SCALARS, scalars, strict=True))
        return HModelGenome(**values, mode=mode, amount=amount, layers=tuple(segments[len(SCALARS) + 1 :]))

    def distance(self, a: HModelGenome, b: HModelGenome) -> float:
        """The share of unequal genes and layers, in [0, 1]; layers are compared as sets where none has a window."""
        left, right = self.segments(a), self.segments(b)
        longest, genes = max(len(left), len(right)), len(SCALARS) + 1
        if a.window or b.window:
            return float(super().distance(a, b))
        equal = sum(x == y for x, y in zip(left[:genes], right[:genes], strict=True))
        equal += (Counter(a.layers) & Counter(b.layers)).total()
        return float(1.0 - equal / longest)

    def canonical(self, genome: HModelGenome) -> HModelGenome:
        """See the class; the layers in alphabetical order, the unused rate 1, ``dense`` for what keeps everything."""
        template = self.settings.structure
        if genome.window == 0:
            genome = replace(genome, layers=tuple(sorted(genome.layers)))
        longest = max(genome.iterations, template.regularisation.iterations_max or 0)
        if longest <= 1:
            rates = self._choices["alpha_rate"]
            genome = replace(genome, alpha_rate=THOUSAND if THOUSAND in rates else rates[0])
        keeps_all = genome.amount == len(genome.layers) and (
            genome.mode == "target_topm" or (genome.mode == "source_topk" and not template.inference.outputs_count)
        )
        if keeps_all and "dense" in self.modes:
            genome = replace(genome, mode="dense", amount=0)
        elif keeps_all and genome.mode == "source_topk" and "target_topm" in self.modes:
            genome = replace(genome, mode="target_topm")
        return genome

    # Writing

    def parse(self, text: str) -> HModelGenome:
        """Read ``T4 a1 r1 sum dense | tr tr mlp``, or a preset: ``wide``, ``deep``, ``balanced``, ``full``.

        Raises:
            GenomeError: with the gene, its value and what is allowed.
        """
        name = text.strip()
        if name in PRESETS:
            count, iterations = PRESETS[name]
            genome = HModelGenome(iterations, layers=("transformer",) * count)
        else:
            genome = parse_genome(text)
        self.check(genome)
        return genome

    def print(self, genome: HModelGenome) -> str:
        """The text form."""
        return print_genome(genome)

    def _to_genes(self, genome: HModelGenome) -> dict[str, Any]:
        return genes_of(genome)

    def _from_genes(self, genes: Any) -> HModelGenome:
        return genome_of(genes)

    # Meaning

    def structure(self, genome: HModelGenome) -> HModelStructure:
        """The network of a genome."""
        template = self.settings.structure
        inference = template.inference.model_dump() | {"mode": genome.mode}
        key = {"source_topk": "k", "target_topm": "m", "threshold": "threshold"}.get(genome.mode)
        if key is not None:
            inference[key] = genome.amount / THOUSAND if key == "threshold" else genome.amount
        values = {name: getattr(template, name) for name in HModelStructure.model_fields}
        values |= {
            # All set: what follows from a stream follows from the template, not from the number of layers of a genome.
            "regularisation": RegularisationStructure(**dict(template.regularisation)),
            "hidden": tuple(self.layers[name] for name in genome.layers),
            "iterations": genome.iterations,
            "alpha": genome.alpha / THOUSAND,
            "alpha_rate": genome.alpha_rate / THOUSAND,
            "aggregation": usual(genome.aggregation),
            "window": genome.window or None,
            "inference": InferenceStructure(**inference),
        }
        return HModelStructure(**values)

    def cost(
        self,
        genome: HModelGenome,
        *,
        inputs: Sequence[InputSizes] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """Cost without building a model; see ``h_model_cost``."""
        return h_model_cost(
            self.structure(genome), inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode
        )


def _draw(values: Sequence[Any], rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]
