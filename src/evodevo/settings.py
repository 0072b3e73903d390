"""The base class of all settings (strict, frozen, unknown keys refused), and their reading, merging and validation."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import PydanticKnownError, core_schema

from evodevo import canonical, files
from evodevo.errors import NotFoundError, UsageError
from evodevo.registry import Registry

S = TypeVar("S", bound="Settings")


MAX_BYTES = files.MIB
MAX_DEPTH = canonical.MAX_DEPTH
_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
# Possessive, so that they run in linear time on any text, also on one whose strings never end.
_TOML_TEXT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|"(?:[^"\\\n]|\\.)*+"?'''
    r"""|'''.*?(?:'''|\Z)|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_DOTTED = re.compile(r"(?<![\w'-])(?:[\w'-]++[ \t]*+\.[ \t]*+){64}")
_DIGITS = re.compile(r"[0-9][0-9_]{30}")
_BRACKETS = re.compile(r"[\[\]{}]")

NEW = "new_runs"
"""Key of a field's ``json_schema_extra``: its value in new runs; the default is what stored runs without it do."""


class Settings(BaseModel):
    """Base class of the settings of one package folder, defined beside the code that reads them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def of_new_runs(kind: type[BaseModel]) -> dict[str, Any]:
    """Fields of a settings class whose value in a new run is not their default: name -> value."""
    extras = {name: field.json_schema_extra for name, field in kind.model_fields.items()}
    return {name: extra[NEW] for name, extra in extras.items() if isinstance(extra, dict) and NEW in extra}


def renewed(settings: S) -> S:
    """The same for a new run: fields, also of settings inside, that nobody has set have their values of new runs."""
    changes: dict[str, Any] = {
        name: value for name, value in of_new_runs(type(settings)).items() if name not in settings.model_fields_set
    }
    inside = {name: getattr(settings, name) for name in type(settings).model_fields}
    changes |= {name: renewed(value) for name, value in inside.items() if isinstance(value, Settings)}
    return settings.model_copy(update=changes) if changes else settings


def changes_of_new_runs(settings: Settings) -> dict[str, Any]:
    """What ``renewed`` changes, as nested plain data: for settings that a run stores as data of its own."""
    changes = {
        name: value for name, value in of_new_runs(type(settings)).items() if name not in settings.model_fields_set
    }
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Settings) and (inside := changes_of_new_runs(value)):
            changes[name] = inside
    return changes


@dataclass(frozen=True, eq=False)
class RowOf:
    """Marks a type as open: a value is of the class that a table holds under its kind, of whatever origin the row is.

    ``Annotated[LayerSpec, RowOf(LAYERS)]`` is read like a union of all classes in the table, and written as the class
    of the value. Rows are looked up when a value is read, so that one may be added at any time.

    Attributes:
        table: kind -> class of settings.
        also: further classes by kind, for fields that allow more than the rows.
        key: the field that holds the kind, a ``Literal`` of one word in every class.
    """

    table: Registry[Any]
    also: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    key: str = "kind"
    _readers: dict[type[BaseModel], TypeAdapter[Any]] = field(default_factory=dict, init=False, repr=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Reads with ``_read``; writes whatever class the value has."""
        return core_schema.with_info_plain_validator_function(
            self._read, serialization=core_schema.simple_ser_schema("any")
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """An object of one of the kinds that are known now."""
        return {"type": "object", "properties": {self.key: {"enum": self._kinds()}}, "required": [self.key]}

    def _kinds(self) -> list[str]:
        return [*self.also, *self.table]

    def _read(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        if isinstance(value, BaseModel):
            kind = getattr(value, self.key, None)
        elif isinstance(value, Mapping):
            kind = value.get(self.key)
        else:
            raise PydanticKnownError("model_attributes_type")
        shown = {"discriminator": repr(self.key)}
        if kind is None:
            raise PydanticKnownError("union_tag_not_found", shown)
        if kind not in self.also and kind not in self.table:
            expected = ", ".join(map(repr, self._kinds()))
            raise PydanticKnownError("union_tag_invalid", {**shown, "tag": str(kind), "expected_tags": expected})
        row = self.also[kind] if kind in self.also else self.table.get(kind)
        if isinstance(value, row):
            return value
        reader = self._readers.setdefault(row, TypeAdapter(_tagged(row, kind, self.key)))
        # Read from JSON, lists replace tuples; the mode of the whole must be that of its parts.
        return reader.validate_json(json.dumps(value)) if info.mode == "json" else reader.validate_python(value)


def _tagged(row: type[BaseModel], kind: str, key: str) -> type:
    """The type of one class as a member of a union: places in errors name the kind, as those of a closed union do."""

    class Tagged:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
            return core_schema.tagged_union_schema({kind: handler.generate_schema(row)}, discriminator=key)

    return Tagged


def validate(kind: type[S], values: dict[str, Any], *, what: str) -> S:
    """Check values against a settings class.

    Args:
        kind: Settings class.
        values: Plain data (from TOML, JSON or Python).
        what: Origin of the values, for the error message.

    Raises:
        UsageError: At least one value is wrong; the message has the path of each, what is allowed and, for unknown
            keys, the nearest known one.
    """
    try:
        # JSON mode is strict about numbers and text but accepts a list for a tuple; TOML and JSON files have no tuples.
        return kind.model_validate_json(_as_json(values, what))
    except ValidationError as error:
        lines = [_line(kind, item) for item in error.errors(include_url=False, include_context=False)]
        raise UsageError(f"{what}: " + "; ".join(lines)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain data.

    Raises:
        NotFoundError: The file does not exist.
        UsageError: The file is not TOML; the message has line and column.
    """
    if not path.exists():
        raise NotFoundError(f"no settings file at {path}.")
    text = files.read_text(path, MAX_BYTES)
    try:
        return _parsed(text)
    except ValueError as error:
        raise UsageError(f"{path} is not a readable TOML file: {error}") from None


def _parsed(text: str) -> dict[str, Any]:
    """TOML within bounds: what is deep, long or dotted without end takes tomllib minutes, or all of the stack.

    Raises:
        ValueError: It is not TOML, or exceeds a bound.
    """
    bare = _TOML_TEXT.sub("''", text)
    if _DOTTED.search(bare) or _depth(bare) > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if _DIGITS.search(bare):
        raise ValueError(f"a number has more than {canonical.MAX_DIGITS} digits")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None


def _depth(bare: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(bare):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        deepest = max(deepest, depth)
    return deepest


def assign(values: dict[str, Any], dotted: str, text: str) -> None:
    """Apply one ``--set key.sub=value`` in place.

    The value is parsed as TOML where it is TOML; else ``null`` is none, and an array or object of JSON is that; else it
    is kept as text.

    Raises:
        UsageError: The key is empty, or one of its parents is not a table.
    """
    keys = dotted.split(".")
    if len(keys) > MAX_DEPTH:
        raise UsageError(f"--set {dotted[:40]}...: a key has at most {MAX_DEPTH} parts.")
    if not all(keys):
        raise UsageError(f"--set needs key=value or key.sub=value; got {dotted!r}.")
    value = _value(text)
    table = values
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise UsageError(f"--set {dotted}: {key!r} is a value, not a table.")
    table[keys[-1]] = value


def _value(text: str) -> Any:
    try:
        return _parsed(f"value = {text}")["value"]
    except ValueError:
        pass
    if text == "null" or text[:1] in ("[", "{", '"'):
        try:
            return canonical.loads(text)
        except UsageError:
            pass
    return text


def assignments(values: Mapping[str, Any]) -> list[str]:
    """Texts ``key.sub=value`` from which ``assign`` makes these nested values again; tables without values are left
    out."""
    texts = []
    for name, value in values.items():
        if isinstance(value, Mapping) and all(map(_KEY.fullmatch, value)):
            texts += [f"{name}.{text}" for text in assignments(value)]
        else:
            texts.append(f"{name}={_text(value)}")
    return texts


def _text(value: Any) -> str:
    """A text that ``_value`` reads as this value: text itself where it is read as such, else TOML or JSON."""
    if isinstance(value, str) and value == value.strip() and _value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def nested(dotted: str, value: Any) -> dict[str, Any]:
    """``{"a": {"b": value}}`` of ``"a.b"``."""
    for key in reversed(dotted.split(".")):
        value = {key: value}
    changes: dict[str, Any] = value
    return changes


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """A copy of ``below`` with the values of ``above``: tables are merged key by key, other values are replaced."""
    result = dict(below)
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def _as_json(values: dict[str, Any], what: str) -> str:
    try:
        return canonical.dumps(values)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def _line(kind: type[BaseModel], item: Any) -> str:
    location = ".".join(str(part) for part in item["loc"]) or "settings"
    if item["type"] == "extra_forbidden":
        known = _fields(kind, item["loc"][:-1])
        near = difflib.get_close_matches(str(item["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"unknown key {location!r}{hint}; known: {', '.join(known)}"
    if item["type"] == "value_error" and isinstance(item.get("input"), dict):
        # A rule over several settings failed. The input is then the whole table, which would only bury the message.
        return f"{location}: {item['msg'].removeprefix('Value error, ')}"
    return f"{location}: {item['msg'].lower()}, got {str(item.get('input'))[:80]!r}"


def _fields(kind: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        annotation = kind.model_fields[str(part)].annotation if str(part) in kind.model_fields else None
        annotation = next(iter(get_args(annotation)), annotation)  # of a union, the class that data are read as
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return sorted(kind.model_fields)
        kind = annotation
    return sorted(kind.model_fields)
