"""What files of `magnetar plan` are read with, and how a difference is written. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]
Verb = Literal["create", "change", "delete"]


class WrongFile(Exception):
    """What is wrong with the file, where, and what to do."""


@dataclass(frozen=True)
class Change:
    """`kind`: namespace, topic, subscription, key, role, member, team; or what of one of them: policies, labels, grants,
    properties, partitions, schema, members. `place`: () of the tenant, (namespace,), (namespace, topic) or (namespace, topic,
    subscription); (name,) of a key, role, member or team."""

    verb: Verb
    kind: str
    place: tuple[str, ...]
    before: Any = None
    after: Any = None

    @property
    def name(self) -> str:
        return "/".join(self.place) or "of the tenant"

    def __str__(self) -> str:
        mark = {"create": "+", "change": "~", "delete": "-"}[self.verb]
        return f"{mark} {self.kind} {self.name}"

    def lines(self) -> Iterator[str]:
        """The difference, for people."""
        yield str(self)
        if isinstance(self.before, dict) and isinstance(self.after, dict):
            for key in sorted({*self.before, *self.after}):
                old, new = self.before.get(key), self.after.get(key)
                if key not in self.before:
                    yield f"    + {key}: {new}"
                elif key not in self.after:
                    yield f"    - {key}: {old}"
                elif old != new:
                    yield f"    ~ {key}: {old} -> {new}"
        elif self.verb == "change":
            yield f"    {self.before} -> {self.after}"


def object_of(given: Any, at: str, names: tuple[str, ...]) -> Json:
    place = at.removesuffix(".")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise WrongFile(f"{place} is not an object: use {', '.join(names)}")
    for name in given:
        if name not in names:
            raise WrongFile(f"{place} has the unknown field {name!r}: use {', '.join(names)}")
    return given


def named(given: Any, at: str) -> Iterator[tuple[str, Any]]:
    if given is None:
        return
    if not isinstance(given, dict):
        raise WrongFile(f"{at} is not an object of names")
    for name, value in given.items():
        if not isinstance(name, str) or not name:
            raise WrongFile(f"{at} has the name {name!r}, which is no text: put it in quotes")
        yield name, value


def texts_of(body: Json, at: str, field_name: str) -> dict[str, str] | None:
    if field_name not in body:
        return None
    pairs = dict(named(body[field_name], f"{at}{field_name}"))
    for name, value in pairs.items():
        if not isinstance(value, str):
            raise WrongFile(f"{at}{field_name}.{name} is {value!r}, which is no text: put it in quotes")
    return pairs


def field_change(kind: str, place: tuple[str, ...], wanted: Json | None, present: Json | None) -> Iterator[Change]:
    if wanted is not None and dict(wanted) != dict(present or {}):
        yield Change("change", kind, place, dict(present or {}), dict(wanted))
