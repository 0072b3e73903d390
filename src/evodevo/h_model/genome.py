"""The genome of an H-Model: its layers by name and a few whole numbers, and how it is written.

Written form: ``T4 a1 r1 sum dense | tr tr mlp``, before the bar in any order: iterations T; alpha and alpha rate (1
if left out); an aggregation (``sum``, ``attention``); ``w2`` for a window of 2; the inference mode as ``dense``,
``k2`` (each source keeps 2), ``m2`` (2 targets are kept) or ``c0.1`` (connections below 0.1 are cut). After it the
hidden layers in order; ``4*tr`` denotes four.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from evodevo.errors import GenomeError, quoted_list
from evodevo.h_model.aggregations.base import AGGREGATIONS

GeneMode = Literal["dense", "source_topk", "target_topm", "threshold"]
MODES: tuple[GeneMode, ...] = get_args(GeneMode)

THOUSAND = 1000
MAX_HIDDEN = 64
MAX_TEXT = 8192
SHORT_NAMES = {"transformer": "tr", "convolution": "conv"}
LONG_NAMES = {short: name for name, short in SHORT_NAMES.items()}

_NAME = r"[A-Za-z][A-Za-z0-9_.\-]{0,39}"
NAME = re.compile(_NAME, re.ASCII)
_LAYER = re.compile(rf"(?:([1-9][0-9]{{0,3}})\*)?({_NAME})", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,6}", re.ASCII)
_DECIMAL = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,3}))?", re.ASCII)


@dataclass(frozen=True)
class HModelGenome:
    """One H-Model, without the settings that its space fixes.

    Attributes:
        iterations: T.
        alpha, alpha_rate: temperature and its factor per iteration, in thousandths.
        aggregation: row of ``AGGREGATIONS``, with default settings.
        window: largest distance of connected layers; 0 is no limit.
        mode, amount: inference: k of ``source_topk``, m of ``target_topm``, thousandths of ``threshold``; 0 of
            ``dense``.
        layers: the hidden layers by name, in order.
    """

    iterations: int
    alpha: int = THOUSAND
    alpha_rate: int = THOUSAND
    aggregation: str = "sum"
    window: int = 0
    mode: GeneMode = "dense"
    amount: int = 0
    layers: tuple[str, ...] = ("transformer",)


_LETTERS = {"source_topk": "k", "target_topm": "m", "threshold": "c"}
_MODES: dict[str, GeneMode] = {"k": "source_topk", "m": "target_topm", "c": "threshold"}


def print_genome(genome: HModelGenome) -> str:
    """The written form, without abbreviation of repeated layers."""
    words = [f"T{genome.iterations}", f"a{_decimal(genome.alpha)}", f"r{_decimal(genome.alpha_rate)}"]
    words.append(genome.aggregation)
    if genome.window:
        words.append(f"w{genome.window}")
    words.append(print_inference(genome))
    layers = [SHORT_NAMES.get(name, name) for name in genome.layers]
    return " ".join([*words, "|", *layers])


def print_inference(genome: HModelGenome) -> str:
    """The inference mode alone: ``dense``, ``k2``, ``m2``, ``c0.1``."""
    if genome.mode == "dense":
        return "dense"
    amount = _decimal(genome.amount) if genome.mode == "threshold" else str(genome.amount)
    return _LETTERS[genome.mode] + amount


def _decimal(thousandths: int) -> str:
    whole, rest = divmod(thousandths, THOUSAND)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def parse_genome(text: str) -> HModelGenome:
    """Read the written form; the space checks whether the values are allowed.

    Raises:
        GenomeError: the word that cannot be read, and the expected form.
    """
    if len(text) > MAX_TEXT:
        raise GenomeError(f"H-Model genome: the text has {len(text)} characters; at most {MAX_TEXT} are read.")
    left, bar, right = text.partition("|")
    if not bar:
        raise GenomeError(
            f"H-Model genome: {text.strip()[:60]!r} has no bar between the numbers and the layers; write for example "
            "'T4 a1 r1 sum dense | tr tr mlp'."
        )
    values: dict[str, Any] = {}
    for word in left.split():
        read = _read_word(word)
        twice = [name for name in read if name in values]
        if twice:
            raise GenomeError(f"H-Model genome: {word[:40]!r} sets {twice[0]} a second time; leave one of them out.")
        values |= read
    if "iterations" not in values:
        raise GenomeError("H-Model genome: the iterations are missing; begin with T and a number, for example T4.")
    return HModelGenome(layers=_read_layers(right), **values)


def _read_word(word: str) -> dict[str, Any]:
    letter, rest = word[:1], word[1:]
    if word in AGGREGATIONS:
        return {"aggregation": word}
    if word == "dense":
        return {"mode": "dense", "amount": 0}
    if letter in ("T", "w") and _WHOLE.fullmatch(rest):
        return {"iterations" if letter == "T" else "window": int(rest)}
    if letter in ("a", "r") and _DECIMAL.fullmatch(rest):
        return {"alpha" if letter == "a" else "alpha_rate": _thousandths(rest)}
    if letter in ("k", "m") and _WHOLE.fullmatch(rest):
        return {"mode": _MODES[letter], "amount": int(rest)}
    if letter == "c" and _DECIMAL.fullmatch(rest):
        return {"mode": _MODES[letter], "amount": _thousandths(rest)}
    raise GenomeError(
        f"H-Model genome: {word[:40]!r} is not understood; known: T4 (iterations), a1 (alpha), r0.7 (alpha rate), "
        f"an aggregation ({', '.join(AGGREGATIONS)}), w2 (window), and one of dense, k2, m2, c0.1; numbers "
        "have at most three decimals."
    )


def _thousandths(text: str) -> int:
    whole, _, rest = text.partition(".")
    return int(whole) * THOUSAND + int(rest.ljust(3, "0") if rest else 0)


def _read_layers(text: str) -> tuple[str, ...]:
    layers: list[str] = []
    for place, word in enumerate(text.split(), 1):
        match = _LAYER.fullmatch(word)
        if match is None:
            raise GenomeError(f"H-Model genome: layer {place} is {word[:40]!r}; a name is wanted, or 4*name.")
        count, name = int(match[1] or 1), match[2]
        layers += [LONG_NAMES.get(name, name)] * min(count, MAX_HIDDEN + 1)
        if len(layers) > MAX_HIDDEN:
            raise GenomeError(f"H-Model genome: more than {MAX_HIDDEN} hidden layers.")
    if not layers:
        raise GenomeError("H-Model genome: no layers after the bar; name at least one, for example tr.")
    return tuple(layers)


def genes_of(genome: HModelGenome) -> dict[str, Any]:
    """The genome as plain data."""
    return {field.name: getattr(genome, field.name) for field in fields(genome)} | {"layers": list(genome.layers)}


def genome_of(genes: Any) -> HModelGenome:
    """The inverse of ``genes_of``, for data of any origin.

    Raises:
        GenomeError: not such an object.
    """
    names = [field.name for field in fields(HModelGenome)]
    if not isinstance(genes, Mapping) or set(genes) != set(names):
        raise GenomeError(f"the genes of an H-Model are an object with exactly the keys {quoted_list(names)}.")
    for name in names:
        kind = {"layers": list, "aggregation": str, "mode": str}.get(name, int)
        if type(genes[name]) is not kind:
            raise GenomeError(f"{name} is {str(genes[name])[:40]!r}; the JSON type for {kind.__name__} is wanted.")
    layers = genes["layers"]
    if len(layers) > MAX_HIDDEN or any(type(name) is not str or not NAME.fullmatch(name) for name in layers):
        raise GenomeError(f"layers are a list of at most {MAX_HIDDEN} names of layers.")
    return HModelGenome(**{**genes, "layers": tuple(layers)})


def not_allowed(gene: str, genome: HModelGenome, allowed: Sequence[Any]) -> str:
    """The words for a gene whose value is not among those that it may have beside the others."""
    given, *options = (_written(gene, genome, value) for value in (getattr(genome, gene), *allowed))
    mode = f" of the mode {genome.mode}" if gene == "amount" else ""
    size = f" with {len(genome.layers)} layers" if gene in ("amount", "window") else ""
    return f"{gene} is {given}; allowed{mode}{size}: {quoted_list(options)}."


def _written(gene: str, genome: HModelGenome, value: Any) -> str:
    decimal = gene in ("alpha", "alpha_rate") or (gene == "amount" and genome.mode == "threshold")
    return f"{value / THOUSAND:g}" if decimal else str(value)
