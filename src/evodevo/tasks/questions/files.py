"""Reading of questions from JSON lines (.jsonl, .jsonl.gz, .jsonl.xz), one question per line.

Each line has one of these forms; other keys are left alone. ``uid`` or ``group`` names the part of the set that a
question belongs to.

=============================================  =======================================================================
keys                                           question
=============================================  =======================================================================
question (or context, query), choices, answer  which choice follows the question (answer, or gold: its place from 0, its
                                               text, or its letter from A); with both, the context comes first
context_options, continuation, answer          after which context the continuation is likeliest
context, continuation                          whether greedy decoding writes the continuation (LAMBADA)
good, bad                                      which of both texts is likelier (BLiMP)
=============================================  =======================================================================

A space separates a context and what follows it unless one of them brings white space. A context that begins with
"Question:" and does not end with "Answer:" gets "Answer:" on a line of its own, as the prompts of lm-eval have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evodevo import canonical, files
from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.tasks.questions.question import Kind, Option, Question, QuestionSet, name_of
from evodevo.tasks.text import corpus

MAX_LINE_BYTES = files.MIB
MAX_SET_BYTES = 512 * files.MIB
MAX_OPTIONS = 26
_ANSWERS = ("answer", "gold")
_GROUPS = ("uid", "group")
_FORMS = (
    "Each line is a JSON object with question (or context, query), choices and answer (or gold); or context_options, "
    "continuation and answer; or context and continuation; or good and bad"
)

Values = Mapping[str, Any]


def read(path: str | Path) -> list[QuestionSet]:
    """The sets of a file, or of each such file in a folder.

    Raises:
        DataError: Nothing there, no such file in the folder, or a line that is no question; the message has file and
            line.
    """
    location = Path(path).expanduser()
    if location.is_dir():
        files.refuse_links_outside(location)
        sets = [file for file in sorted(location.iterdir()) if _is_set(file)]
        if not sets:
            raise DataError(f"{location} holds no questions (.jsonl, .jsonl.gz, .jsonl.xz). {_FORMS}.")
        return [read_file(file) for file in sets]
    if not location.is_file():
        raise DataError(f"there are no questions at {location}. Give a .jsonl(.gz, .xz) file, or a folder of them.")
    return [read_file(location)]


def read_file(path: Path) -> QuestionSet:
    """The set of one file. Raises as ``read``."""
    if not _is_set(path):
        raise DataError(f"{path} is no file of questions; name a .jsonl, .jsonl.gz or .jsonl.xz file. {_FORMS}.")
    questions: list[Question] = []
    kinds: dict[Kind, str] = {}
    for place, values in _lines(path):
        kind, question = _question(values, place)
        kinds.setdefault(kind, place)
        questions.append(question)
        if len(kinds) > 1:
            raise DataError(
                f"{place}: a file asks either for a choice or for a continuation, and this one began with another "
                f"form ({min(kinds.values(), key=len)}). Make two files of it."
            )
    if not questions:
        raise DataError(f"{path} has no line with a question. {_FORMS}.")
    (kind,) = kinds
    suffixes = [suffix for suffix in path.suffixes if suffix.lower() in (".jsonl", ".gz", ".xz")]
    return QuestionSet(name_of(path.name, suffixes), str(path), kind, tuple(questions))


def _is_set(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and corpus.suffixes(path)[0] == ".jsonl"


def _lines(path: Path) -> Iterator[tuple[str, Values]]:
    """(file and line, object) of each line that is not blank."""
    _, compression = corpus.suffixes(path)
    with files.unpacked(path, compression, MAX_SET_BYTES) as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            place = f"{path}, line {number}"
            if len(line) > MAX_LINE_BYTES:
                raise DataError(f"{place} has more than {MAX_LINE_BYTES:,} bytes; a question is shorter.")
            if not line.strip():
                continue
            try:
                value = canonical.loads(line, what=place)
            except UsageError as error:
                raise DataError(f"{str(error).rstrip('.')}. {_FORMS}.") from None
            if not isinstance(value, dict):
                raise DataError(f"{place} is no JSON object. {_FORMS}.")
            yield place, value


def _question(values: Values, place: str) -> tuple[Kind, Question]:
    forms: tuple[tuple[str, Callable[[Values, str], tuple[Kind, Question]]], ...] = (
        ("choices", _choices),
        ("context_options", _contexts),
        ("continuation", _continuation),
        ("good", _pair),
        ("bad", _pair),
    )
    for key, form in forms:
        if key in values:
            return form(values, place)
    there = quoted_list(sorted(values)[:16]) or "nothing"
    raise DataError(f"{place} is no question: choices is missing (there: {there}). {_FORMS}.")


def _choices(values: Values, place: str) -> tuple[Kind, Question]:
    given = [_text(values, name, place) for name in ("context", "question", "query") if name in values]
    if not given:
        raise _missing(values, place, "question (or context, query)")
    context = _prompt("\n".join(given))
    choices = _texts(values, "choices", place)
    options = tuple(Option(context, _after(context, choice), len(choice.encode())) for choice in choices)
    return "choice", Question(options, _answer(values, choices, place), _group(values, place))


def _contexts(values: Values, place: str) -> tuple[Kind, Question]:
    contexts = _texts(values, "context_options", place)
    text = _text(values, "continuation", place)
    options = tuple(Option(context, _after(context, text), len(text.encode())) for context in contexts)
    return "choice", Question(options, _answer(values, contexts, place), _group(values, place))


def _continuation(values: Values, place: str) -> tuple[Kind, Question]:
    context, text = _text(values, "context", place), _text(values, "continuation", place)
    return "continuation", Question(
        (Option(context, _after(context, text), len(text.encode())),), 0, _group(values, place)
    )


def _pair(values: Values, place: str) -> tuple[Kind, Question]:
    texts = [_text(values, name, place) for name in ("good", "bad")]
    if texts[0] == texts[1]:
        raise DataError(f"{place}: good and bad are the same text; a pair has two.")
    return "choice", Question(tuple(Option("", text, len(text.encode())) for text in texts), 0, _group(values, place))


def _prompt(context: str) -> str:
    asks = context.startswith("Question:") and not context.rstrip().endswith("Answer:")
    return f"{context.rstrip()}\nAnswer:" if asks else context


def _after(context: str, text: str) -> str:
    """The text with the space that separates it from its context."""
    return text if not context or context[-1].isspace() or text[0].isspace() else f" {text}"


def _text(values: Values, name: str, place: str) -> str:
    if name not in values:
        raise _missing(values, place, name)
    text = values[name]
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: {name} must be a text that is not blank; got {str(text)[:60]!r}.")
    corpus.encoded(text, f"{place}, {name}")
    return text


def _texts(values: Values, name: str, place: str) -> list[str]:
    texts = values[name]
    if not isinstance(texts, list) or not 2 <= len(texts) <= MAX_OPTIONS:
        raise DataError(f"{place}: {name} must be a list of 2 to {MAX_OPTIONS} texts; got {str(texts)[:60]!r}.")
    return [_text({name: text}, name, place) for text in texts]


def _answer(values: Values, options: list[str], place: str) -> int:
    """The place of the right option."""
    name = next((name for name in _ANSWERS if name in values), None)
    if name is None:
        raise _missing(values, place, "answer (or gold)")
    answer = values[name]
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(options):
        return answer
    if isinstance(answer, str):
        if options.count(answer) == 1:
            return options.index(answer)
        letter = ord(answer) - ord("A") if len(answer) == 1 else -1
        if 0 <= letter < len(options):
            return letter
    last = chr(ord("A") + len(options) - 1)
    raise DataError(
        f"{place}: {name} is {str(answer)[:60]!r}; it must be the place of the right option (0 to {len(options) - 1}), "
        f"its letter (A to {last}), or its text."
    )


def _group(values: Values, place: str) -> str:
    name = next((name for name in _GROUPS if name in values), None)
    return "" if name is None else _text(values, name, place)


def _missing(values: Values, place: str, name: str) -> DataError:
    there = quoted_list(sorted(values)[:16])
    return DataError(f"{place}: {name} is missing (there: {there}). {_FORMS}.")
