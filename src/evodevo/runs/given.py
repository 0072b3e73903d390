"""An architecture as a user names it: a genome, a known name, a file, an individual of a store."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evodevo import canonical, files
from evodevo.errors import EvodevoError, GenomeError, NotFoundError, UsageError, quoted_list, unknown_name
from evodevo.runs.archive import Archive, Individual
from evodevo.search.space import Space
from evodevo.search.start import Start

MAX_FILE_BYTES = files.MIB
_ID = re.compile(r"[0-9a-z]{1,64}", re.ASCII)
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
ENVELOPE = {"space", "version", "genes"}


@dataclass(frozen=True)
class Given:
    """A named architecture; one of ``text``, ``envelope`` and ``individual`` holds it.

    Attributes:
        source: origin in words, for messages and records.
        text: a genome as text, or a known name.
        envelope: a genome as JSON.
        individual: individual of an open store.
    """

    source: str
    text: str = ""
    envelope: dict[str, Any] | None = None
    individual: Individual | None = None

    def genome(self, space: Space[Any]) -> Any:
        """The genome in a space.

        Raises:
            GenomeError: it is not one of this space; the message begins with the source where that is no text.
        """
        try:
            if self.individual is not None:
                return space.from_json(self.individual.row.genome_envelope)
            if self.envelope is not None:
                return space.from_json(self.envelope)
        except GenomeError as error:
            raise GenomeError(f"{self.source}: {error}") from None
        try:
            return space.parse(self.text)
        except GenomeError as error:
            # Of a text that is itself the argument, the user has just written the source.
            raise GenomeError(f"{self.source}: {error}" if self.source.startswith("the file") else str(error)) from None


def find(word: str | Path | Individual, names: Sequence[str], archive: Archive | None, store: str | Path) -> Given:
    """The meaning of a user's word: a known name, a file, an individual, or else a genome as text, in this order.

    Args:
        word: word of the user; ``last`` is the individual that answers for the newest run. An individual is itself.
        names: known names of genomes (``Space.named_genomes``), each also with ``@`` and a depth.
        archive: the open store; None where there is none.
        store: folder of the store, for messages.

    Raises:
        NotFoundError: none of these.
        UsageError: an unknown name, a file that holds no genome, or an ambiguous id.
    """
    if isinstance(word, Individual):
        return Given(f"individual {word.id}", individual=word)
    text = str(word).strip()
    if not text:
        raise unknown_name("architecture", text, names)
    name = text.partition("@")[0]
    if name in names:
        return Given(text, text=text)
    if _is_file(text):
        return _read(Path(text))
    if _ID.fullmatch(text):
        if archive is not None:
            try:
                individual = archive.individual(text)
                return Given(f"individual {individual.id}", individual=individual)
            except NotFoundError as error:
                if not text.isdigit():
                    raise _unknown(text, names, store, str(error)) from None
        elif not text.isdigit():
            raise _unknown(text, names, store, f"there is no store at {store}.")
    elif not text[:1].isdigit() and "|" not in text:
        raise _unknown(text, names, store, "ids are made of the digits 0-9 and letters a-z.")
    return Given("the genome", text=text)


def is_architecture(word: str, names: Sequence[str]) -> bool:
    """Whether a word can be a genome, a known name or a file, and not the id of a run or an individual."""
    text = word.strip()
    written = _ID.fullmatch(text) is None and (text[:1].isdigit() or "|" in text)
    return written or text.partition("@")[0] in names or _is_file(text)


def opened(store: str | Path) -> AbstractContextManager[Archive | None]:
    """The archive of a store; None where there is none."""
    try:
        return Archive(store)
    except NotFoundError:
        return nullcontext()


def starts(
    words: Sequence[str | Path | Individual], space: Space[Any], store: str | Path, depth: int | None = None
) -> tuple[Start, ...]:
    """The genomes with which a search begins.

    Args:
        words: words of the user (see ``find``), or individuals.
        space: space of the search.
        store: folder of the store, where individuals are looked up.
        depth: number of LIVs to which each genome is brought by the rule of the space; None keeps its own.

    Raises:
        NotFoundError, UsageError: see ``find`` and ``Space.at_depth``.
    """
    found = []
    with opened(store) as archive:
        for word in words:
            given = find(word, space.named_genomes, archive, store)
            genome, scaling = scaled(given, space, depth)
            parents = () if given.individual is None else (given.individual.id,)
            start = Start(genome=space.to_json(genome), source=given.source, parents=parents, scaling=scaling)
            found.append(start)
    return tuple(found)


def scaled(given: Given, space: Space[Any], depth: int | None) -> tuple[Any, str]:
    """The genome at a depth, and a sentence on how it was reached; see ``Space.at_depth``.

    What has a known name is drawn anew by its own rule: a name, or a baseline of a search.
    """
    if depth is None:
        return given.genome(space), ""
    if given.text in space.named_genomes:
        return space.parse(f"{given.text}@{depth}"), ""
    genome, name = given.genome(space), "" if given.individual is None else given.individual.name
    if name not in space.named_genomes:
        return space.at_depth(genome, depth)
    drawn = space.parse(f"{name}@{depth}")
    same = space.hash(drawn) == space.hash(genome)
    return (genome, "") if same else (drawn, f"{name} drawn anew with {depth} LIVs")


def _is_file(text: str) -> bool:
    return bool(text) and files.regular(Path(text))


def _read(path: Path) -> Given:
    """The genome in a file: its text, lines that begin with # aside; its envelope; or a document of ``--json``."""
    source = f"the file {path}"
    text = files.read_text(path, MAX_FILE_BYTES)
    if not text.lstrip().startswith("{"):
        return Given(source, text=_COMMENT.sub("", text).strip())
    document = canonical.loads(text, what=source)
    if set(document) == ENVELOPE:
        return Given(source, envelope=document)
    inner = document.get("genome")
    if isinstance(inner, str):
        return Given(source, text=inner)
    if isinstance(inner, dict):
        return Given(source, envelope=inner)
    raise UsageError(
        f"{source} holds no genome: a text such as '11111 91111', an object with the keys space, version and genes, or "
        'a document with "genome" is wanted.'
    )


def _unknown(text: str, names: Sequence[str], store: str | Path, why: str) -> EvodevoError:
    if difflib.get_close_matches(text, names, n=1):
        return unknown_name("architecture", text, names)
    return NotFoundError(
        f"{text[:60]!r} is no genome, no known name ({quoted_list(names) or 'there is none'}), no file and no "
        f"individual of the store {store}: {why}"
    )
