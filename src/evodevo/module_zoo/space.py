"""The space of zoos: the modules, the fusion of the modalities, and the settings of the router.

Everything that a genome leaves open (width, extractors, losses, regularisation) is the space's template, a whole
``ZooStructure``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evodevo.errors import GenomeError, UsageError, quoted_list
from evodevo.h_model.space_settings import checked_range, choices
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.genome import ALL, GENES, MAX_MODULES, WORDS, ZooGenome, genes_of, genome_of, make_module
from evodevo.module_zoo.modules import zoo as zoo_archetypes
from evodevo.module_zoo.modules.graph import check_graph
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype
from evodevo.module_zoo.pools import matched, named
from evodevo.module_zoo.settings import ModuleZooSpaceSettings
from evodevo.module_zoo.spec import ZooStructure
from evodevo.module_zoo.text import parse_genome, print_genome, show_gene, show_module
from evodevo.networks.canvas import NamedInput, OutputSizes
from evodevo.operators.cost import Cost, Mode
from evodevo.search.space import Space
from evodevo.settings import validate


class ModuleZooSpace(Space[ZooGenome]):
    """Zoos over the archetypes and choices that the settings allow.

    Two genomes are one model where the order of their modules alone differs, and where neither limits how many
    modules a sample may use, because K is not below their number.
    """

    name = "module_zoo"
    version = 1

    def __init__(self, settings: ModuleZooSpaceSettings | None = None) -> None:
        """
        Raises:
            UsageError: an unknown archetype, heads that do not divide the width, a range or choice that is empty or
                out of bounds, or a template whose router has no such choices.
        """
        self.settings = settings or ModuleZooSpaceSettings()
        template = self.settings.structure
        if template.modules or template.disabled:
            raise UsageError("structure.modules and structure.disabled are the genomes' own; leave both empty.")
        if template.router.kind != "graph_attention":
            raise UsageError(
                f"structure.router.kind is {template.router.kind!r}; a space searches over routers of graph_attention."
            )
        self.width = template.width
        self.counts = checked_range("modules_range", self.settings.modules_range, MAX_MODULES)
        self.archetypes = choices("archetypes", self.settings.archetypes)
        for name in self.archetypes:
            zoo_archetypes.ARCHETYPES.get(name)
        self._choices: dict[str, tuple[Any, ...]] = {
            "fusion": choices("fusions", self.settings.fusions),
            "gate": choices("gates", self.settings.gates),
            "synergy": choices("synergies", self.settings.synergies),
            "heads": choices("heads", self.settings.heads),
            "top_k": choices("top_ks", self.settings.top_ks),
            "keys": choices("keys", self.settings.keys),
        }
        for heads in self._choices["heads"]:
            if not 1 <= heads <= 64 or self.width % heads:
                raise UsageError(f"heads are {self.settings.heads}; each divides the width {self.width}, at most 64.")
        if min(self._choices["top_k"]) < ALL or max(self._choices["top_k"]) > MAX_MODULES:
            raise UsageError(f"top_ks are {self.settings.top_ks}; each is 0 (no limit) to {MAX_MODULES}.")

    # Validity

    def check(self, genome: ZooGenome) -> None:
        """Raise ``GenomeError`` for the first gene that is not allowed."""
        low, high = self.counts
        if not low <= len(genome.modules) <= high:
            raise GenomeError(f"a zoo of this space has {low} to {high} modules, not {len(genome.modules)}.")
        for gene in GENES:
            value, allowed = getattr(genome, gene), self._choices[gene]
            if value not in allowed:
                shown = quoted_list(show_gene(gene, choice) for choice in allowed)
                raise GenomeError(f"{gene} is {show_gene(gene, value)}; allowed: {shown}.")
        for place, module in enumerate(genome.modules, 1):
            try:
                self._check_module(module)
            except GenomeError as error:
                raise GenomeError(f"module {place}: {error}") from None

    def _check_module(self, module: ModuleGenotype) -> None:
        allowed = (*self.archetypes, HYBRID) if self.settings.hybrids else self.archetypes
        if module.archetype not in allowed:
            raise GenomeError(f"the archetype is {module.archetype[:40]!r}; allowed: {quoted_list(allowed)}.")
        if module.width != self.width:
            raise GenomeError(f"it is made for width {module.width}, the zoo has {self.width}.")
        if module.archetype == HYBRID:
            check_graph(module.graph, self.width)
        elif make_module(module.archetype, self.width, module.attributes) != module:
            raise GenomeError(f"its graph is not the one of its attributes: {show_module(module)[:80]}.")

    def repair(self, genome: ZooGenome, rng: np.random.Generator) -> ZooGenome:
        """Modules too many go, too few and unknown ones are drawn; any other value becomes the nearest one."""
        low, high = self.counts
        modules = [module if self._fits(module) else self._module(rng) for module in genome.modules[:high]]
        modules += [self._module(rng) for _ in range(low - len(modules))]
        genes = {gene: _nearest(getattr(genome, gene), self._choices[gene]) for gene in GENES}
        return ZooGenome(**genes, modules=tuple(modules))

    def _fits(self, module: ModuleGenotype) -> bool:
        try:
            self._check_module(module)
        except GenomeError:
            return False
        return True

    # Drawing

    def initial(self, rng: np.random.Generator) -> ZooGenome | None:
        """One module of each archetype of the start, as far as the space allows.

        Source: docs/spec/architect_thyself.md#families.
        """
        known = tuple(module for module in self._start() if module.archetype in self.archetypes)
        return self.repair(ZooGenome(modules=known), rng)

    def _start(self) -> tuple[ModuleGenotype, ...]:
        """Without their lineages, which a pool of strangers does not need."""
        members = (module.genotype for module in zoo_archetypes.start_zoo(self.width))
        return tuple(make_module(module.archetype, self.width, module.attributes) for module in members)

    def _module(self, rng: np.random.Generator) -> ModuleGenotype:
        return zoo_archetypes.sample(_draw(self.archetypes, rng), self.width, rng)

    def _sample(self, rng: np.random.Generator) -> ZooGenome:
        low, high = self.counts
        modules = tuple(self._module(rng) for _ in range(int(rng.integers(low, high + 1))))
        return ZooGenome(**{gene: _draw(self._choices[gene], rng) for gene in GENES}, modules=modules)

    def _mutate(self, genome: ZooGenome, rng: np.random.Generator) -> ZooGenome:
        """One change: a module mutated, added, removed or replaced, or another value of one other gene."""
        low, high = self.counts
        modules = genome.modules
        place = int(rng.integers(len(modules)))
        before, after = modules[:place], modules[place + 1 :]
        # A hybrid has no attributes to change; another module takes its place.
        is_hybrid = modules[place].archetype == HYBRID
        mutated = self._module(rng) if is_hybrid else zoo_archetypes.mutate(modules[place], rng)
        pools = [(*before, mutated, *after), (*before, self._module(rng), *after)]
        if len(modules) < high:
            pools.append((*modules, self._module(rng)))
        if len(modules) > low:
            pools.append((*before, *after))
        genes = []
        for gene in GENES:
            others = tuple(value for value in self._choices[gene] if value != getattr(genome, gene))
            if others:
                genes.append({gene: _draw(others, rng)})
        # Modules are what a zoo is made of: half of all changes are theirs, however many other genes there are.
        if not genes or rng.random() < 0.5:
            return replace(genome, modules=_draw(pools, rng))
        return replace(genome, **_draw(genes, rng))

    def _crossover(self, a: ZooGenome, b: ZooGenome, rng: np.random.Generator) -> tuple[ZooGenome, ZooGenome]:
        """Every gene changes owner with chance one half; so do the modules, in random pairs.

        Pairs of one archetype are crossed attribute by attribute (eq. 13).
        """
        left = {gene: getattr(a, gene) for gene in GENES}
        right = {gene: getattr(b, gene) for gene in GENES}
        for gene in GENES:
            if rng.random() < 0.5:
                left[gene], right[gene] = right[gene], left[gene]
        ours, theirs = ([genome.modules[place] for place in rng.permutation(len(genome.modules))] for genome in (a, b))
        pools: tuple[list[ModuleGenotype], list[ModuleGenotype]] = ([], [])
        for first, other in zip(ours, theirs, strict=False):
            pair = (first, other)
            if first.archetype == other.archetype != HYBRID:
                pair = zoo_archetypes.crossover(first, other, rng)
            elif rng.random() < 0.5:
                pair = (other, first)
            for pool, module in zip(pools, pair, strict=True):
                pool.append(module)
        shared = min(len(ours), len(theirs))
        for module in (*ours[shared:], *theirs[shared:]):
            pools[int(rng.integers(2))].append(module)
        return ZooGenome(**left, modules=tuple(pools[0])), ZooGenome(**right, modules=tuple(pools[1]))

    # Comparing

    def segments(self, genome: ZooGenome) -> tuple[Any, ...]:
        """The genes in order, then one segment per module."""
        return (*(getattr(genome, gene) for gene in GENES), *genome.modules)

    def join(self, segments: Sequence[Any]) -> ZooGenome:
        """The inverse of ``segments``."""
        genes = dict(zip(GENES, segments[: len(GENES)], strict=True))
        return ZooGenome(**genes, modules=tuple(segments[len(GENES) :]))

    def distance(self, a: ZooGenome, b: ZooGenome) -> float:
        """In [0, 1]: the mean over genes, equal or not, and over modules in their best pairing (eq. 19).

        Modules that have no partner count 1, pairs half their distance, which is 2 at most.
        """
        unequal = sum(getattr(a, gene) != getattr(b, gene) for gene in GENES)
        longest = max(len(a.modules), len(b.modules))
        apart = abs(len(a.modules) - len(b.modules)) + matched(a.modules, b.modules)
        return round(float((unequal + apart) / (len(GENES) + longest)), 9)

    def canonical(self, genome: ZooGenome) -> ZooGenome:
        """See the class; modules by their text, and a limit K that limits nothing is none, or the lowest such."""
        modules = tuple(sorted(genome.modules, key=show_module))
        limits = [k for k in self._choices["top_k"] if k == ALL or k >= len(modules)]
        no_limit = genome.top_k == ALL or genome.top_k >= len(modules)
        top_k = min(limits) if no_limit and limits else genome.top_k
        return replace(genome, modules=modules, top_k=top_k)

    # Writing

    def parse(self, text: str) -> ZooGenome:
        """Read ``asym_residual sparsemax k4 output | transformer(depth=2) mlp``, or ``start``: one of each archetype.

        Raises:
            GenomeError: with the gene, its value and what is allowed.
        """
        if text.strip() == "start":
            genome = ZooGenome(modules=self._start())
        else:
            genome = parse_genome(text, self.width)
        self.check(genome)
        return genome

    def print(self, genome: ZooGenome) -> str:
        """The text form."""
        return print_genome(genome)

    def title(self, genome: ZooGenome) -> str:
        """The text form with equal archetypes counted and without their attributes."""
        counts = Counter(module.archetype for module in genome.modules)
        pool = " ".join(f"{count}*{name}" if count > 1 else name for name, count in counts.items())
        return f"{print_genome(replace(genome, modules=()))} {pool}"

    def _to_genes(self, genome: ZooGenome) -> dict[str, Any]:
        return genes_of(genome)

    def _from_genes(self, genes: Any) -> ZooGenome:
        return genome_of(genes, self.width)

    # Meaning

    def structure(self, genome: ZooGenome) -> ZooStructure:
        """The network of a genome; modules are ``mlp-1``, ``mlp-2``, … in canonical order."""
        template = self.settings.structure
        router = {name: getattr(genome, name) for name in ("gate", "synergy", "heads", "keys")}
        router["top_k"] = None if genome.top_k == ALL else genome.top_k
        values = {name: getattr(template, name) for name in ZooStructure.model_fields}
        values |= {
            "fusion": template.fusion.model_copy(update={"kind": genome.fusion}),
            "router": template.router.model_copy(update=router),
            "modules": named(self.canonical(genome).modules),
        }
        return ZooStructure(**values)

    def cost(
        self,
        genome: ZooGenome,
        *,
        inputs: Sequence[NamedInput] = (),
        outputs: Sequence[OutputSizes] = (),
        length: int | None = None,
        batch: int = 1,
        mode: Mode = "prefill",
    ) -> Cost:
        """Cost without building a model; see ``zoo_cost``."""
        return zoo_cost(self.structure(genome), inputs=inputs, outputs=outputs, length=length, batch=batch, mode=mode)


def any_zoo(width: int) -> ModuleZooSpace:
    """The space of every zoo of a width that can be written.

    Raises:
        UsageError: a width that no zoo has.
    """
    heads = [count for count in range(1, 65) if width % count == 0]
    fixed: dict[str, Any] = {
        "structure": {"width": width, "fusion": {"heads": 1}, "router": {"heads": 1}},
        "modules_range": [1, MAX_MODULES],
        "archetypes": zoo_archetypes.ARCHETYPES.names(),
        "hybrids": True,
        "heads": heads,
        "top_ks": list(range(MAX_MODULES + 1)),
    }
    words = {"fusions": "fusion", "gates": "gate", "synergies": "synergy", "keys": "keys"}
    values = {**fixed, **{setting: list(WORDS[gene]) for setting, gene in words.items()}}
    return ModuleZooSpace(validate(ModuleZooSpaceSettings, values, what="zoos"))


def _nearest(value: Any, allowed: tuple[Any, ...]) -> Any:
    if value in allowed:
        return value
    return min(allowed, key=lambda other: abs(other - value)) if isinstance(value, int) else allowed[0]


def _draw(values: Sequence[Any], rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]
