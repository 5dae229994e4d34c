"""Masks: which parts of messages are hidden from people who may read but not consume. Pure.

A rule is ``key``, ``payload``, ``property:NAME``, a path such as ``$.customer.email`` or ``$.items[*].price``, or ``$..NAME`` for
members of that name at any depth. In a NAME ``*`` stands for any characters, and large and small letters are the same.

A payload is shown field by field only where it was decoded into fields with names; anything else is hidden, also where no rule
would match: bytes and texts of a payload may hold what the rules hide, and so may a field that has only a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

from messaging.errors import InvalidValue, NotAuthorized
from messaging.payloads.paths import EVERY, Every, Path, Step, parse_path

MASK = "•••"
RULES_MAX = 50
RULE_CHARACTERS_MAX = 200
_PROPERTY, _ANYWHERE = "property:", "$.."
_PARTS = ("key", "value")  # of a key-value payload
_Name = re.Pattern[str]


class Masks(NamedTuple):
    """`names`: of members at any depth."""

    key: bool = False
    payload: bool = False
    properties: tuple[_Name, ...] = ()
    paths: tuple[Path, ...] = ()
    names: tuple[_Name, ...] = ()

    @property
    def any(self) -> bool:
        return self.key or bool(self.properties) or self.of_payload

    @property
    def of_payload(self) -> bool:
        return self.payload or bool(self.paths or self.names)

    def and_also(self, other: Masks) -> Masks:
        """What either hides."""
        return Masks(
            self.key or other.key,
            self.payload or other.payload,
            self.properties + other.properties,
            self.paths + other.paths,
            self.names + other.names,
        )

    def hides_property(self, name: str) -> bool:
        return any(each.match(name) for each in self.properties)

    def shown_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        return {name: MASK if self.hides_property(name) else value for name, value in properties.items()}

    def check_filter(self, *, key: bool, property_name: str, text: bool, path: Path) -> None:
        """Raises `NotAuthorized` where an answer would tell what is hidden: whether a message is found is an answer too."""
        if key and self.key:
            raise NotAuthorized("keys are masked for you here, so messages are not found by their keys")
        if property_name and self.hides_property(property_name):
            raise NotAuthorized(f"property {property_name[:80]!r} is masked for you here, so messages are not found by it")
        if text and self.of_payload:
            raise NotAuthorized("parts of payloads are masked for you here, so messages are not found by text in them")
        if path and self.hides_path(path):
            raise NotAuthorized("what this path leads to is masked for you here, or may be, so messages are not found by it")

    def check_key_filter(self, *, text: bool, path: Path) -> None:
        """The same of payloads that have the key in them: `key` of a key-value payload."""
        if self.key and (text or (path and (isinstance(path[0], Every) or str(path[0]) in ("key", "0")))):
            raise NotAuthorized("keys are masked for you here and are a part of payloads, so messages are not found by them")

    def hides_path(self, path: Path) -> bool:
        """Whether a value there may be hidden, lie in one that is, or hold one."""
        if self.payload or any(_overlap(path, masked) for masked in self.paths):
            return True
        if self.of_payload and all(isinstance(step, Every) or str(step).isdecimal() for step in path[path[0] in _PARTS :]):
            return True  # to a part of a key-value payload, or an element of a list: they have no name of their own
        return bool(self.names) and any(
            isinstance(step, Every) or str(step).isdecimal() or any(name.match(str(step)) for name in self.names) for step in path
        )

    def shown_value(self, value: Any, *, key_value: bool = False, numbered: bool = False) -> Any:
        """A decoded payload without what is hidden. `value` is not changed. `key_value`: it is both parts of such a payload.
        `numbered`: fields of it may have their numbers in place of their names, and are hidden."""
        if self.payload:
            return MASK
        if key_value and isinstance(value, dict):
            value = {name: _named(part) for name, part in value.items()}
        value = _named(value)
        if numbered:
            value = _without_numbered(value)
        for path in self.paths:
            value = _without(value, path)
        return self._without_names(value) if self.names else value

    def _without_names(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: MASK if any(each.match(str(name)) for each in self.names) else self._without_names(inner)
                for name, inner in value.items()
            }
        return [self._without_names(inner) for inner in value] if isinstance(value, list) else value


NO_MASKS = Masks()


def parse_masks(rules: Sequence[str]) -> Masks:
    """Raises `InvalidValue`."""
    properties: list[_Name] = []
    paths: list[Path] = []
    names: list[_Name] = []
    for rule in rules:
        if rule in ("key", "payload"):
            continue
        if rule.startswith(_PROPERTY) and len(rule) > len(_PROPERTY):
            properties.append(_name(rule.removeprefix(_PROPERTY)))
        elif rule.startswith(_ANYWHERE) and re.fullmatch(r"[^.\[\]'\"]+", rule.removeprefix(_ANYWHERE)):
            names.append(_name(rule.removeprefix(_ANYWHERE)))
        elif rule.startswith("$") and not rule.startswith(_ANYWHERE):
            paths.append(parse_path(rule))
        else:
            raise InvalidValue(
                f"{rule[:80]!r} masks nothing: use key, payload, property:NAME, a path as $.customer.email, or $..NAME for members "
                "of that name at any depth"
            )
    return Masks("key" in rules, "payload" in rules, tuple(properties), tuple(paths), tuple(names))


def properties_but(*shown: str) -> tuple[_Name, ...]:
    """Rules that hide all properties but those."""
    return (re.compile(rf"(?!(?:{'|'.join(map(re.escape, shown))})\Z)" if shown else ""),)


def _name(pattern: str) -> _Name:
    return re.compile(translate(pattern), re.IGNORECASE)


def _named(value: Any) -> Any:
    """Without what stands under no name."""
    if isinstance(value, list):
        return [_named(inner) for inner in value]
    return value if isinstance(value, dict) else MASK


def _without_numbered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: MASK if str(name).isdecimal() else _without_numbered(inner) for name, inner in value.items()}
    return [_without_numbered(inner) for inner in value] if isinstance(value, list) else value


def _same(asked: Step, masked: Step) -> bool:
    """A number may stand for any name: fields of Protocol Buffers have one where a schema does not name them."""
    if isinstance(asked, Every) or isinstance(masked, Every) or str(asked) == str(masked):
        return True
    return str(asked).isdecimal() and not str(masked).isdecimal()


def _overlap(asked: Path, masked: Path) -> bool:
    """Whether one may lead to what the other leads to, or into it."""
    return all(_same(*steps) for steps in zip(asked, masked, strict=False))


def _without(value: Any, path: Path) -> Any:
    if not path:
        return MASK
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {name: _without(inner, rest) if step is EVERY or str(name) == str(step) else inner for name, inner in value.items()}
    if isinstance(value, list) and (step is EVERY or isinstance(step, int)):
        return [_without(inner, rest) if step in (EVERY, index) else inner for index, inner in enumerate(value)]
    return value
