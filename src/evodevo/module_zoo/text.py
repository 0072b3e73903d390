"""The written form of a zoo's genome, and its parser.

``asym_residual sparsemax similar h4 k4 output | transformer(depth=2,heads=4) 2*mlp``. Before the bar in any order, each
at most once: the fusion, the gate, the synergy, ``h4`` for four router heads, ``k4`` for at most four modules per
sample (``kall`` for no limit), the source of the keys. After it the modules in order; in brackets the differences from
the archetype's defaults, as a word or as JSON; ``2*mlp`` denotes two. A free graph is written as ``hybrid({...})`` with
its JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any

from evodevo import canonical
from evodevo.errors import GenomeError, quoted_list
from evodevo.module_zoo.genome import ALL, GENES, MAX_MODULES, NAME, WORDS, ZooGenome, make_hybrid, make_module
from evodevo.module_zoo.modules.spec import HYBRID, ModuleGenotype
from evodevo.module_zoo.modules.zoo import archetype

MAX_TEXT = 1 << 18
LOW_RANK = "low_rank"
"""Written form of the fusion ``bilinear``, because there is a synergy of that name."""

_TIMES = re.compile(r"([1-9][0-9]?)\*", re.ASCII)
_NUMBERED = re.compile(r"([kh])([0-9]{1,4}|all)", re.ASCII)
_SPACE = re.compile(r"\s*")


def print_genome(genome: ZooGenome) -> str:
    """The written form, without abbreviation of repeated modules."""
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
    word = isinstance(value, str) and NAME.fullmatch(value) and value not in ("true", "false", "null")
    return str(value) if word else canonical.dumps(value)


_READ = {show_gene(gene, word): (gene, word) for gene, words in WORDS.items() for word in words}


def parse_genome(text: str, width: int) -> ZooGenome:
    """Read the written form; the space checks whether the values are allowed.

    Args:
        text: text of ``print_genome``, where words may be left out.
        width: width of the zoo.

    Raises:
        GenomeError: the part that cannot be read, and the expected form.
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
            raise GenomeError(f"zoo genome: {word[:40]!r} sets {gene} a second time; leave one of them out.")
        genes[gene] = value
    return ZooGenome(**genes, modules=_ModuleReader(right, width).modules())


def _read_word(word: str) -> tuple[str, str | int]:
    if word in _READ:
        return _READ[word]
    if match := _NUMBERED.fullmatch(word):
        letter, number = match.groups()
        if letter == "k":
            return "top_k", ALL if number == "all" else int(number)
        if number != "all":
            return "heads", int(number)
    raise GenomeError(
        f"zoo genome: {word[:40]!r} is not understood; known: h4 (heads), k4 or kall (modules per sample), "
        f"{quoted_list(_READ)}."
    )


class _ModuleReader:
    """Reads modules one after the other."""

    def __init__(self, text: str, width: int) -> None:
        self.text, self.width, self.at = text, width, 0

    def modules(self) -> tuple[ModuleGenotype, ...]:
        members: list[ModuleGenotype] = []
        self._skip()
        while self.at < len(self.text):
            times = _TIMES.match(self.text, self.at)
            self.at = times.end() if times else self.at
            members += [self._module()] * (int(times[1]) if times else 1)
            if len(members) > MAX_MODULES:
                raise GenomeError(f"zoo genome: more than {MAX_MODULES} modules.")
            self._skip()
        return tuple(members)

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
                raise GenomeError(f"zoo genome: {name} sets {key} a second time; leave one of them out.")
            self._expect("=")
            word = NAME.match(self.text, self.at)
            attributes[key] = self._value() if word is None or word[0] in ("true", "false") else self._name("a value")
        return make_module(name, self.width, attributes)

    def _name(self, what: str) -> str:
        self._skip()
        match = NAME.match(self.text, self.at)
        if match is None:
            raise self._error(what)
        self.at = match.end()
        return match[0]

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
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

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
