"""A generated file while it is written: its classes and functions, each once, in the order in which they need each
other.

A row of a table (a layer, an aggregation, a module, a network) states its own part in a method ``source``: it adds the
classes that its module needs to the sheet and returns the expression that makes the module. Classes of the file have
the parameters and buffers of those of evodevo under the same names, so that the file of weights is the network's state
dict.

Calling convention of layers in generated files: ``layer(x, mask)`` with x (B, S, D) and mask (B, S), true at real
positions, or None; it returns y (B, S, D).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evodevo.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

FILE = "model.py"
WEIGHTS = "model.safetensors"
LINE = 116
"""Longest line of a generated file."""

_IMPORTS = (
    ("math.", "import math"),
    ("namedtuple(", "from collections import namedtuple"),
    ("Path(", "from pathlib import Path"),
)
_TORCH_IMPORTS = (
    ("load_file(", "from safetensors.torch import load_file"),
    ("nn.", "from torch import nn"),
    ("F.", "from torch.nn import functional as F"),
    ("pack_padded_sequence(", "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence"),
)


@dataclass(frozen=True)
class Fragment:
    """A class or function of generated files.

    Attributes:
        name: Its name.
        text: Its source.
        needs: Fragments that it refers to.
    """

    name: str
    text: str
    needs: tuple[Fragment, ...] = ()


@dataclass(frozen=True)
class Program:
    """One network as source.

    Attributes:
        text: ``model.py``. It defines ``load()``, which returns the network with its weights.
        weights: Tensors by the names that the file gives them, each shared one once.
        inputs: Names of the arguments of the network's ``forward``, in the order of the inputs.
        notes: Facts about the file, a sentence each.
        example: Python that uses the file in its folder; empty takes the common one.
        text_example: The same where the folder has a tokenizer; empty where there is none.
    """

    text: str
    weights: Mapping[str, Tensor]
    inputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    example: str = ""
    text_example: str = ""


@dataclass(frozen=True)
class RepresentationSource:
    """A network as one class of a file, which maps its inputs to what it represents, (B, D).

    Attributes:
        name: Name of the class; it has no arguments.
        weights: Tensors by the names that the class gives them, each shared one once.
    """

    name: str
    weights: Mapping[str, Tensor]


@dataclass
class SourceSheet:
    """Classes and functions of a file, by name, in order."""

    parts: dict[str, str] = field(default_factory=dict)
    _names: dict[Hashable, str] = field(default_factory=dict)

    def add(self, fragment: Fragment) -> str:
        """Add a fragment after those that it needs; returns its name."""
        for need in fragment.needs:
            self.add(need)
        known = self.parts.setdefault(fragment.name, fragment.text.strip("\n"))
        if known != fragment.text.strip("\n"):
            raise UsageError(
                f"two parts of this network write a class of the name {fragment.name!r} into their source."
            )
        return fragment.name

    def write(self, key: Hashable, name: str, make: Callable[[str], str]) -> str:
        """Add a class that is written for this network.

        Args:
            key: Equal keys give one class.
            name: Wanted name; where another class has it, a number follows.
            make: From the name to the text; it may add others, which come first.

        Returns:
            The name of the class.
        """
        if key in self._names:
            return self._names[key]
        plain = re.sub(r"\W", "", name) or "Part"
        plain = plain if not plain[0].isdigit() else f"Part{plain}"
        free, number = plain, 2
        while free in self.parts or free in self._names.values():
            free, number = f"{plain}_{number}", number + 1
        self._names[key] = free
        self.parts[free] = make(free).strip("\n")
        return free

    def write_class(self, key: Hashable, name: str, text: str) -> str:
        """Add a class whose text is made with the wanted name; see ``write``."""
        return self.write(key, name, lambda free: text.replace(f"class {name}(", f"class {free}(", 1))

    def text(self, docstring: str, last: str, load: str | None = None) -> str:
        """The whole file.

        Args:
            docstring: Text of the file's docstring.
            last: Text of the network's class.
            load: Text of ``load``, where it is not the usual one; empty for a file without.
        """
        loads = (_LOAD if load is None else load).strip("\n")
        body = "\n\n\n".join([*self.parts.values(), last.strip("\n"), *([loads] if loads else [])])
        lines = [line for word, line in _IMPORTS if _used(word, body)]
        more = [line for word, line in _TORCH_IMPORTS if _used(word, body)]
        head = [
            *lines,
            "",
            "import torch",
            *more,
        ]
        return folded(
            "\n".join([f'"""{docstring.strip()}', '"""', *([""] if lines else []), *head]) + "\n\n\n" + body + "\n"
        )


_LOAD = f'''
def load(file=Path(__file__).with_name("{WEIGHTS}")):
    """The trained network."""
    model = Model()
    model.load_state_dict(load_file(file))
    return model.eval()
'''.strip("\n")


def _used(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(word)}", text) is not None


def listed(items: list[str], indent: int) -> str:
    """A list of expressions over several lines, equal ones in a row together.

    Args:
        items: The expressions.
        indent: Number of spaces of the line that ends it.
    """
    if len(items) > 1 and len(set(items)) == 1:
        return f"[{items[0]} for _ in range({len(items)})]"
    if len(items) < 2:
        return f"[{''.join(items)}]"
    space = "\n" + " " * (indent + 4)
    return "[" + "".join(f"{space}{item}," for item in items) + "\n" + " " * indent + "]"


def call(name: str, *sizes: object, **named: object) -> str:
    """The expression of a call; named arguments that are None are left out."""
    words = [str(size) for size in sizes] + [f"{key}={value}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(words)})"


def identifier(name: str) -> str:
    """A Python name for an input or output."""
    plain = re.sub(r"\W", "_", name)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def folded(text: str) -> str:
    """The same program with lines of at most ``LINE`` characters: docstrings between words, calls behind commas."""
    lines, inside = [], False
    for line in text.splitlines():
        quoted = inside or line.lstrip().startswith('"""')
        if line.count('"""') == 1:
            inside = not inside
        lines += _docstring(line) if quoted else _code(line)
    return "\n".join(lines) + "\n"


def _docstring(line: str) -> list[str]:
    space = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, LINE, subsequent_indent=space, break_long_words=False) or [line]


def _code(line: str) -> list[str]:
    space, found = " " * (len(line) - len(line.lstrip()) + 4), []
    while len(line) > LINE and (at := line.rfind(", ", len(space), LINE)) > 0:
        found.append(line[: at + 1])
        line = space + line[at + 2 :]
    return [*found, line]


def indented(text: str, spaces: int) -> str:
    """Every line that is not empty, moved to the right."""
    return "\n".join(" " * spaces + line if line else line for line in text.splitlines())
