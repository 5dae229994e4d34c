"""JSON bodies as structs: read with one leniency, and with errors that say which field is wrong, how, and what to do.

A body is declared once, as a msgspec struct: `Annotated[Text, NAME, Meta(description=...)]` is the type of a field, its limit
(`messaging.limits`) and what the OpenAPI document says of it. Numbers and truth values may be in quotes, as for Pulsar's parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from messaging.errors import InvalidValue
from messaging.json_types import converted, decoder_of
from messaging.limits.depth import too_deep
from messaging.limits.json_values import check_values
from messaging.limits.model import SHOWN_CHARACTERS
from messaging.limits.structs import check, check_fields, hints_of

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Text = Annotated[str, Meta(min_length=1)]  # that says something: spaces alone do not
Time = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
AS_SENT = "as sent"  # in the annotation of a field: spaces at the ends of its texts mean something

_FIELD_SHOWN = 80
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>\w+)`")
_OUTSIDE = re.compile(r"Expected `(?P<wanted>[^`]+)` (?P<bound>.+)")
_MISSING = re.compile(r"Object missing required field `(?P<field>.+)`")
_CHOICE = re.compile(r"Invalid enum value '?(?P<value>.*?)'?", re.DOTALL)
_NUMBER = re.compile(r"[-+]?[\d.]+([eE][-+]?\d+)?")
_NO_TIME = "is not a time: give one such as 2026-11-01T12:00:00Z"
_SENTENCES = {
    "Invalid RFC3339 encoded datetime": _NO_TIME,
    "Invalid RFC3339 encoded date": "is not a day: give one such as 2026-11-01",
    "Expected `str` of length >= 1": "is empty: give it a value",
}
_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time",
    "date": "a day",
}


class NotJson(InvalidValue):
    """The body is not JSON at all."""


def one_of(choices: Iterable[str]) -> Meta:
    """In the annotation of a text: all that it may be."""
    return Meta(extra_json_schema={"enum": list(choices)})


def decode(raw: bytes, kind: type[T]) -> T:
    """JSON as `kind`. Fields that it does not have are skipped, and limits are not checked. Raises `InvalidValue`, `NotJson`."""
    check_values(raw)
    try:
        return decoder_of(kind, strict=False).decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"the request body is not valid: {explain(error, kind)}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NotJson(f"the request body is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidValue(too_deep()) from None


def convert(given: Mapping[str, Any], kind: type[S]) -> S:
    """The fields of an object as `kind`: within their limits, without spaces at the ends of texts, times in UTC where they do not
    say their zone. Raises `InvalidValue`, also for a field that it does not have."""
    fields = msgspec.structs.fields(kind)
    names = [field.encode_name for field in fields]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidValue(f"field {unknown[0][:_FIELD_SHOWN]!r} is unknown: use {', '.join(names)}")
    hints = hints_of(kind)
    tidy = {
        field.encode_name: _tidy_field(field.encode_name, given[field.encode_name], _parts(hints[field.name]))
        for field in fields
        if field.encode_name in given
    }
    check_fields(kind, tidy)  # before anything that a value too large could make slow
    try:
        body = converted(tidy, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidValue(explain(error, kind)) from None
    check(body)  # numbers that were in quotes
    for field in fields:
        value, choices = getattr(body, field.name), choices_in(hints[field.name])
        if choices and isinstance(value, str) and value not in choices:
            raise InvalidValue(_not_one_of(field.encode_name, value, choices))
        if isinstance(value, datetime) and value.tzinfo is None:
            setattr(body, field.name, value.replace(tzinfo=UTC))
    return body


def sent_fields(body: msgspec.Struct) -> dict[str, Any]:
    """The fields that a request had, of a struct whose others are `UNSET`."""
    return {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}


def explain(error: msgspec.ValidationError, kind: Any) -> str:
    """One sentence about the field that is wrong."""
    what, _, at = str(error).partition(" - at `")
    path = at.rpartition("`")[0].rpartition("$")[2].lstrip(".")
    field = path or "it"
    if what in _SENTENCES:
        return f"{field} {_SENTENCES[what]}"
    if match := _MISSING.fullmatch(what):
        return f"{path}.{match['field']} is missing".lstrip(".")
    if match := _EXPECTED.fullmatch(what):
        return f"{field} must be {_in_words(match['wanted'])}, not {_in_words(match['got'])}"
    if match := _OUTSIDE.fullmatch(what):
        return f"{field} must be {_in_words(match['wanted'])} {match['bound']}"
    if match := _CHOICE.fullmatch(what):
        return _not_one_of(field, match["value"], _choices(kind, path))
    return f"{path}: {what}" if path else what


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))


def _not_one_of(field: str, value: str, choices: list[Any]) -> str:
    instead = f": use {' or '.join(map(str, choices))}" if choices else ""
    return f"{field} {value[:SHOWN_CHARACTERS]!r} is not valid{instead}"


def _choices(kind: Any, path: str) -> list[Any]:
    """What a field of the object itself may be; [] if it is not such a field."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return []
    named = (field.name for field in msgspec.structs.fields(kind) if field.encode_name == path.partition("[")[0])
    return [choice for name in named for choice in choices_in(hints_of(kind)[name])]


def choices_in(hint: Any) -> list[Any]:
    """What a value may be; [] if it may be anything of its type."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if isinstance(hint, Meta):
        return list((hint.extra_json_schema or {}).get("enum", ()))
    return [choice for part in get_args(hint) for choice in choices_in(part)]


def _parts(hint: Any) -> list[Any]:
    """A type and what `Annotated` adds to it; of several types, those of each."""
    return [hint, *(inner for part in get_args(hint) for inner in _parts(part))]


def _tidy_field(name: str, value: Any, parts: list[Any]) -> Any:
    if datetime in parts and _NUMBER.fullmatch(str(value)):  # seconds or milliseconds? It would be taken for seconds
        raise InvalidValue(f"{name} {_NO_TIME}")
    return _tidy(name, value, trim=AS_SENT not in parts)


def _tidy(name: str, value: Any, *, trim: bool) -> Any:
    """Every text in a value. Recursive: what is nested too deeply was refused before."""
    if isinstance(value, str):
        if "\x00" in value:  # no database takes it
            raise InvalidValue(f"{name} has a NUL character: leave it out")
        return value.strip() if trim else value
    if isinstance(value, list):
        return [_tidy(f"{name}[{index}]", part, trim=trim) for index, part in enumerate(value)]
    if isinstance(value, dict):
        return {
            _tidy(f"a key of {name}", key, trim=False): _tidy(f"{name}[{key[:SHOWN_CHARACTERS]!r}]", part, trim=trim)
            for key, part in value.items()
        }
    return value
