"""Checks decoded commands against the limits table, with a plan built once per message type. Pure.

No field is larger than its command, so a command smaller than its smallest limit is not inspected; this covers all frequent
commands. Commands with text fields are always inspected, because protobuf accepts any bytes as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from messaging.errors import MagnetarError
from messaging.limits.binary import ANSWERS, limit_of
from messaging.limits.model import SHOWN_CHARACTERS, Limit, size_bytes, too_large, too_long, too_many, violation
from messaging.protocol import pulsar_pb2 as pb

_NEVER = 1 << 32  # larger than any frame
Wrong = MagnetarError | None
_Check = Callable[[str, Any], MagnetarError | None]


class Plan(NamedTuple):
    """`looked_at_bytes`: smaller messages cannot exceed any limit and are not inspected. `checks`: by field number."""

    looked_at_bytes: int
    checks: dict[int, tuple[str, _Check]]


def over_limit(command: pb.Command) -> Wrong:
    """The error for the first field over its limit in the body that belongs to the command's type, the only body that is used; None
    if there is none."""
    limited = _BODIES.get(command.type)
    if limited is None:
        return None
    name, plan = limited
    body = getattr(command, name)
    return _check(plan, body, "") if body.ByteSize() >= plan.looked_at_bytes else None


@cache
def plan_of(kind: Descriptor) -> Plan:
    checks = {}
    smallest = _NEVER
    for field in kind.fields:
        least = _looked_at_bytes(field, (kind.name,))
        if least < _NEVER:
            smallest = min(smallest, least)
            checks[field.number] = field.name, _check_of(field)
    for field in kind.fields if checks else ():
        if field.message_type is kind:  # a message id within a message id
            checks[field.number] = field.name, _check_of(field)
    return Plan(smallest, checks)


def _looked_at_bytes(field: FieldDescriptor, within: tuple[str, ...]) -> int:
    """The smallest size at which a field can exceed a limit; `_NEVER` if it cannot."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return 0  # a text of any size may be invalid
    limit = _limit_of(field)
    sizes = [_NEVER]
    if limit is not None:
        sizes += [size for size in (limit.bytes_max, limit.count_max, limit.total_bytes_max) if size is not None]
        if limit.minimum is not None or limit.maximum is not None:
            return 0
    kind = field.message_type
    if kind is not None and kind.name not in within:
        sizes += [_looked_at_bytes(inner, (*within, kind.name)) for inner in kind.fields]
    return min(sizes)


def _limit_of(field: FieldDescriptor) -> Limit | None:
    return limit_of(field.containing_type.name, field.name) if field.containing_type is not None else None


def _check_of(field: FieldDescriptor) -> _Check:
    limit, kind = _limit_of(field), field.message_type
    if kind is None:
        assert limit is not None, f"{field.name} has nothing to be checked"
        return _Text(limit) if field.type == FieldDescriptor.TYPE_STRING else _Value(limit)
    if not field.is_repeated:
        return lambda name, value: _check(plan_of(kind), value, f"{name}.")
    assert limit is not None, f"{field.name} is repeated and has no limit"
    return _Pairs(limit) if kind.name == "KeyValue" else _Messages(limit, kind)


def _check(plan: Plan, body: Any, path: str) -> Wrong:
    for field, value in body.ListFields():
        limited = plan.checks.get(field.number)
        if limited is not None:
            name, check = limited
            error = check(path + name, value)
            if error is not None:
                return error
    return None


@dataclass(frozen=True)
class _Value:
    """Bytes or a number, single or repeated."""

    limit: Limit

    def __call__(self, name: str, value: Any) -> Wrong:
        single = isinstance(value, str | bytes | int | float)
        wrong = violation(name, value if single else list(value), self.limit)
        return None if wrong is None else self.limit.error(wrong)


@dataclass(frozen=True)
class _Text:
    """Protobuf returns bytes for a text that is not UTF-8; the rest of the broker must never see them."""

    limit: Limit

    def __call__(self, name: str, value: Any) -> Wrong:
        if not isinstance(value, str):
            return self.limit.error(_no_text(name, value))
        wrong = violation(name, value, self.limit)
        return None if wrong is None else self.limit.error(wrong)


@dataclass(frozen=True)
class _Pairs:
    limit: Limit

    def __call__(self, name: str, value: Any) -> Wrong:
        limit = self.limit
        assert limit.count_max and limit.bytes_max and limit.total_bytes_max
        if len(value) > limit.count_max:
            return limit.error(too_many(name, len(value), limit.count_max))
        total = 0
        for index, pair in enumerate(value):
            for part, text in (("key", pair.key), ("value", pair.value)):
                if not isinstance(text, str):
                    return limit.error(_no_text(f"{name}[{index}].{part}", text))
                size = size_bytes(text)
                if size > limit.bytes_max:
                    return limit.error(too_long(f"{name}[{index}].{part}", size, limit.bytes_max))
                total += size
        return limit.error(too_large(name, total, limit.total_bytes_max)) if total > limit.total_bytes_max else None


@dataclass(frozen=True)
class _Messages:
    limit: Limit
    kind: Descriptor

    def __call__(self, name: str, value: Any) -> Wrong:
        limit = self.limit
        if limit.count_max is not None and len(value) > limit.count_max:
            return limit.error(too_many(name, len(value), limit.count_max))
        plan = plan_of(self.kind)
        for index, element in enumerate(value) if plan.checks else ():
            if element.ByteSize() >= plan.looked_at_bytes and (error := _check(plan, element, f"{name}[{index}].")) is not None:
                return error
        return None


def _no_text(name: str, value: bytes) -> str:
    return f"{name} is not a text in UTF-8: {value[:SHOWN_CHARACTERS]!r}"


def _bodies() -> dict[int, tuple[str, Plan]]:
    """For each command type whose body can exceed a limit: the name of the body and its plan."""
    fields = pb.Command.DESCRIPTOR.fields_by_name
    bodies = {}
    for name, kind in pb.Command.Type.items():
        body = fields.get(name.lower())
        message = body.message_type if body is not None else None
        if body is not None and message is not None and message.name not in ANSWERS and plan_of(message).checks:
            bodies[kind] = body.name, plan_of(message)
    return bodies


_BODIES = _bodies()
