"""The genome of a zoo: its pool of modules and how they are chosen, and how both are written.

Written form: ``asym_residual sparsemax similar h4 k4 output | transformer(depth=2,heads=4) 2*mlp``. Before the bar in
any order, each at most once: the fusion, the gate, the synergy, ``h4`` for four router heads, ``k4`` for at most four
modules per sample (``kall`` for no limit), what keys are made from. After it the modules in order; in brackets stands
what differs from the archetype's defaults, as a word or as JSON; ``2*mlp`` stands for two. A free graph is written as
``hybrid({...})`` with its JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from evodevo import canonical
from evodevo.errors import GenomeError, UsageError, quoted_list
from evodevo.settings import validate
from evodevo.spaces.zoo_archetypes import archetype
from evodevo.spaces.zoo_genotype import HYBRID, ModuleGenotype, ModuleGraph
from evodevo.spaces.zoo_graphs import check_graph
from evodevo.spaces.zoo_structure import Gate

Synergy = Literal["off", "similar", "complement", "bilinear"]
Keys = Literal["output", "genotype", "predictor"]
FusionKind = Literal["asym_residual", "paper", "symmetric", "concat", "gmu", "bilinear"]

ALL = 0
"""The ``top_k`` of a zoo in which all modules may count."""
MAX_MODULES = 64
MAX_TEXT = 1 << 18

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_TIMES = re.compile(r"([1-9][0-9]?)\*", re.ASCII)
_NUMBERED = re.compile(r"([kh])([0-9]{1,4}|all)", re.ASCII)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class ZooGenome:
    """One zoo but for what its space fixes.

    Attributes:
        fusion: of the modalities.
        gate, synergy, heads, keys: of the router.
        top_k: modules that a sample may use when it is answered; ``ALL`` for all.
        modules: the pool.
    """

    fusion: FusionKind = "asym_residual"
    gate: Gate = "sparsemax"
    synergy: Synergy = "similar"
    heads: int = 4
    top_k: int = 4
    keys: Keys = "output"
    modules: tuple[ModuleGenotype, ...] = ()


GENES = tuple(field.name for field in fields(ZooGenome) if field.name != "modules")
"""Everything but the modules."""
WORDS: dict[str, tuple[str, ...]] = {
    "fusion": get_args(FusionKind),
    "gate": get_args(Gate),
    "synergy": get_args(Synergy),
    "keys": get_args(Keys),
}
"""Genes that are words -> what they can be."""
LOW_RANK = "low_rank"
"""How the fusion ``bilinear`` is written, because there is a synergy of that name."""


# Text


def print_genome(genome: ZooGenome) -> str:
    """The written form; every module stands for itself."""
    return " ".join(
        [*(show_gene(gene, getattr(genome, gene)) for gene in GENES), "|", *map(show_module, genome.modules)]
    )


def show_gene(gene: str, value: str | int) -> str:
    """One gene before the bar."""
    if gene == "fusion" and value == "bilinear":
        return LOW_RANK
    if gene == "top_k":
        return "kall" if value == ALL else f"k{value}"
    return f"h{value}" if gene == "heads" else str(value)


def show_module(module: ModuleGenotype) -> str:
    """One module after the bar: ``mlp``, ``transformer(depth=2)``."""
    if module.archetype == HYBRID:
        return f"{HYBRID}({canonical.dumps(module.graph.model_dump(mode='json'))})"
    usual = archetype(module.archetype, module.width).attributes
    given = {name: value for name, value in module.attributes.items() if usual.get(name) != value}
    inside = ",".join(f"{name}={_show_value(value)}" for name, value in sorted(given.items()))
    return f"{module.archetype}({inside})" if inside else module.archetype


def _show_value(value: Any) -> str:
    word = isinstance(value, str) and _NAME.fullmatch(value) and value not in ("true", "false", "null")
    return str(value) if word else canonical.dumps(value)


_READ = {show_gene(gene, word): (gene, word) for gene, words in WORDS.items() for word in words}


def parse_genome(text: str, width: int) -> ZooGenome:
    """Read the written form; whether the values are allowed is for the space to say.

    Args:
        text: as ``print_genome`` writes it, or with words left out.
        width: of the zoo.

    Raises:
        GenomeError: with what cannot be read, and what is wanted.
    """
    if len(text) > MAX_TEXT:
        raise GenomeError(f"zoo genome: the text has {len(text)} characters; at most {MAX_TEXT} are read.")
    left, bar, right = text.partition("|")
    if not bar:
        raise GenomeError(
            f"zoo genome: {text.strip()[:60]!r} has no bar between the router and the modules; write for example "
            "'asym_residual sparsemax k4 output | transformer(depth=2) mlp'."
        )
    genes: dict[str, Any] = {}
    for word in left.split():
        gene, value = _read_word(word)
        if gene in genes:
            raise GenomeError(f"zoo genome: {word[:40]!r} says {gene} a second time; leave one of them out.")
        genes[gene] = value
    return ZooGenome(**genes, modules=_Reader(right, width).modules())


def _read_word(word: str) -> tuple[str, str | int]:
    if word in _READ:
        return _READ[word]
    if found := _NUMBERED.fullmatch(word):
        letter, number = found.groups()
        if letter == "k":
            return "top_k", ALL if number == "all" else int(number)
        if number != "all":
            return "heads", int(number)
    raise GenomeError(
        f"zoo genome: {word[:40]!r} is not understood; known: h4 (heads), k4 or kall (modules per sample), "
        f"{quoted_list(_READ)}."
    )


class _Reader:
    """Reads modules one after the other."""

    def __init__(self, text: str, width: int) -> None:
        self.text, self.width, self.at = text, width, 0

    def modules(self) -> tuple[ModuleGenotype, ...]:
        found: list[ModuleGenotype] = []
        self._skip()
        while self.at < len(self.text):
            times = _TIMES.match(self.text, self.at)
            self.at = times.end() if times else self.at
            found += [self._module()] * (int(times[1]) if times else 1)
            if len(found) > MAX_MODULES:
                raise GenomeError(f"zoo genome: more than {MAX_MODULES} modules.")
            self._skip()
        return tuple(found)

    def _module(self) -> ModuleGenotype:
        name = self._name("the name of an archetype")
        if not self._take("("):
            return make_module(name, self.width, {})
        if name == HYBRID:
            graph = self._value()
            self._expect(")")
            return make_hybrid(graph, self.width)
        attributes: dict[str, Any] = {}
        while not self._take(")"):
            if attributes:
                self._expect(",")
            key = self._name("the name of an attribute")
            if key in attributes:
                raise GenomeError(f"zoo genome: {name} says {key} a second time; leave one of them out.")
            self._expect("=")
            word = _NAME.match(self.text, self.at)
            attributes[key] = self._value() if word is None or word[0] in ("true", "false") else self._name("a value")
        return make_module(name, self.width, attributes)

    def _name(self, what: str) -> str:
        self._skip()
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self._error(what)
        self.at = found.end()
        return found[0]

    def _value(self) -> Any:
        self._skip()
        try:
            _, end = json.JSONDecoder().raw_decode(self.text, self.at)
            value = canonical.loads(self.text[self.at : end], what="a value")
        except (ValueError, RecursionError):
            raise self._error("a word or a JSON value") from None
        self.at = end
        return value

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _take(self, mark: str) -> bool:
        self._skip()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        self._skip()
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(repr(mark))

    def _error(self, wanted: str) -> GenomeError:
        there = self.text[self.at : self.at + 30]
        return GenomeError(
            f"zoo genome: {wanted} is wanted at {there!r}." if there else f"zoo genome: {wanted} is missing."
        )


# JSON


def genes_of(genome: ZooGenome) -> dict[str, Any]:
    """The genes as plain data; a module of an archetype goes without its graph, which follows from the attributes."""
    return {
        **{gene: getattr(genome, gene) for gene in GENES},
        "modules": [
            {"archetype": HYBRID, "graph": module.graph.model_dump(mode="json")}
            if module.archetype == HYBRID
            else {"archetype": module.archetype, "attributes": _plain(module.attributes)}
            for module in genome.modules
        ],
    }


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}


def genome_of(genes: Any, width: int) -> ZooGenome:
    """The inverse of ``genes_of``.

    Raises:
        GenomeError: a missing or unknown gene, a value of the wrong JSON type, or a module that cannot be.
    """
    names = [*GENES, "modules"]
    if not isinstance(genes, dict) or set(genes) != set(names):
        raise GenomeError(f"the genes of a zoo are an object with exactly the keys {quoted_list(names)}.")
    for gene in GENES:
        kind = str if gene in WORDS else int
        if type(genes[gene]) is not kind:
            raise GenomeError(f"{gene} is {str(genes[gene])[:40]!r}; the JSON type for {kind.__name__} is wanted.")
    modules = genes["modules"]
    if not isinstance(modules, list) or len(modules) > MAX_MODULES:
        raise GenomeError(f"modules are a list of at most {MAX_MODULES}.")
    return ZooGenome(**{**genes, "modules": tuple(_module_of(module, width) for module in modules)})


def _module_of(given: Any, width: int) -> ModuleGenotype:
    if isinstance(given, dict) and type(given.get("archetype")) is str:
        if set(given) == {"archetype", "graph"} and given["archetype"] == HYBRID:
            return make_hybrid(given["graph"], width)
        if set(given) == {"archetype", "attributes"} and isinstance(given["attributes"], dict):
            return make_module(given["archetype"], width, given["attributes"])
    raise GenomeError(
        f"a module is an object with archetype and attributes, or {HYBRID!r} with a graph; got {str(given)[:60]!r}."
    )


# Modules


def make_module(name: str, width: int, attributes: Mapping[str, Any]) -> ModuleGenotype:
    """A module of an archetype. Raises GenomeError for an unknown one, or a wrong attribute."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
    if any(type(key) is not str or not _NAME.fullmatch(key) for key in values):
        raise GenomeError(f"an attribute of {name[:40]!r} has no name that can be read; names are small letters.")
    try:
        return archetype(name, width, **values)
    except GenomeError:
        raise
    except UsageError as error:
        raise GenomeError(str(error)) from None


def make_hybrid(graph: Any, width: int) -> ModuleGenotype:
    """A free graph as a module. Raises GenomeError where it is none."""
    if not isinstance(graph, dict):
        raise GenomeError(f"the graph of a hybrid is an object with nodes and edges; got {str(graph)[:60]!r}.")
    try:
        made = validate(ModuleGraph, graph, what="the graph of a hybrid")
        check_graph(made, width)
    except GenomeError:
        raise
    except UsageError as error:
        raise GenomeError(str(error)) from None
    return ModuleGenotype(archetype=HYBRID, width=width, graph=made)
