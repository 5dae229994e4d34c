"""Values of policies as people write and read them: ``7d``, ``10 GiB``, ``unlimited``. Sizes are powers of 1024, as with Pulsar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from messaging.errors import InvalidValue
from messaging.policies.model import Policy

DURATION_UNITS: Mapping[str, int] = {"seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "milliseconds": 1}  # in ms
SIZE_UNITS: Mapping[str, int] = {"bytes": 1, "bytes/s": 1, "MiB": 1 << 20}  # in bytes
_BYTES = ("bytes", "bytes/s")
_DURATIONS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
_SIZES = {"PiB": 1 << 50, "TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
_WORDS = {
    **_DURATIONS,
    **{
        name: length
        for names, length in (
            (("day", "days"), _DURATIONS["d"]),
            (("week", "weeks"), _DURATIONS["w"]),
            (("hour", "hours"), _DURATIONS["h"]),
            (("m", "minute", "minutes"), _DURATIONS["min"]),
            (("sec", "second", "seconds"), _DURATIONS["s"]),
            (("millisecond", "milliseconds"), _DURATIONS["ms"]),
        )
        for name in names
    },
}
_SIZE_WORDS = {word: size for name, size in _SIZES.items() for word in (name.lower(), name[0].lower(), name[0].lower() + "b")}
_PART = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-z]*)", re.ASCII)
_LENGTH_MAX = 100


# What sentences count: translators get each with its singular.
NOUNS = (
    "producer",
    "consumer",
    "subscription",
    "connected producer",
    "delayed message",
    "unacknowledged message",
    "unacknowledged entry",
    "message",
    "byte",
    "topic",
    "namespace",
    "connection",
    "key",
    "member",
)


def counted(count: float, noun: str) -> str:
    """1 entry, 12,408 entries, 0.5 messages."""
    return f"{int(count) if count == int(count) else count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    return f"{noun.removesuffix('y')}ies" if noun.endswith("try") else f"{noun}s"


def is_duration(policy: Policy) -> bool:
    return policy.unit in DURATION_UNITS


def is_size(policy: Policy) -> bool:
    return policy.unit in SIZE_UNITS


def typed(policy: Policy, value: Any) -> str:
    """`value` exactly, in a form that `parsed` takes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    word = policy.words.get(value, "")
    if word and next(meant for meant, its in policy.words.items() if its == word) == value:  # two values may mean the same
        return word
    if value > 0 and is_duration(policy):
        return duration_text(int(value) * DURATION_UNITS[policy.unit])
    if value > 0 and is_size(policy):
        return size_text(int(value) * SIZE_UNITS[policy.unit])
    return str(value)


def said(policy: Policy, value: Any) -> str:
    """`value` in words, with its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ("1 entry" if len(value) == 1 else f"{len(value):,} entries") if value else "none"
    if isinstance(value, list):
        return ", ".join(value) or policy.words.get((), "none")
    if not isinstance(value, int | float) or value in policy.words:
        return policy.words.get(value, str(value))
    per_s = "/s" if policy.unit == "bytes/s" else ""
    if value > 0 and (is_duration(policy) or is_size(policy)):
        return policy.phrase.format(_said_size(int(value)) + per_s if policy.unit in _BYTES else typed(policy, value))
    return policy.phrase.format(f"{value:,} {singular(policy.unit) if value == 1 else policy.unit}".rstrip())


def singular(unit: str) -> str:
    """Of a unit of policies: namespace of namespaces, message/s of messages/s."""
    things, slash, rest = unit.partition("/")
    one = f"{things.removesuffix('ies')}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{one}{slash}{rest}"


def _said_size(size_bytes: int) -> str:
    """What is a whole number of bytes only has its digits in groups."""
    text = size_text(size_bytes)
    return f"{size_bytes:,} B" if text.endswith(" B") else text


def duration_text(milliseconds: int) -> str:
    """Exact: 3 d 4 h, 90 s."""
    return _text(milliseconds, {name: length for name, length in _DURATIONS.items() if name != "w"}) or "0 s"


def size_text(size_bytes: int) -> str:
    """Exact, in the largest unit that it is a whole number of: 10 GiB, 1536 MiB."""
    name, unit = next((name, unit) for name, unit in _SIZES.items() if size_bytes % unit == 0 or unit == 1)
    return f"{size_bytes // unit} {name}" if size_bytes else "0 B"


def _text(value: int, units: Mapping[str, int]) -> str:
    parts = []
    for name, unit in units.items():
        if value >= unit:
            parts.append(f"{value // unit} {name}")
            value %= unit
    return " ".join(parts)


def parsed(policy: Policy, text: str) -> int:
    """The value of a policy whose values are whole numbers. A number without a unit is in the policy's own. Raises
    `InvalidValue`."""
    given = text.strip().lower()
    for value, word in policy.words.items():
        if given == word.lower() and isinstance(value, int):
            return value
    if re.fullmatch(r"-?[0-9]{1,18}", given, re.ASCII):
        return int(given)
    if is_duration(policy):
        return _whole(policy, text, _total(policy, given, _WORDS), DURATION_UNITS[policy.unit])
    if is_size(policy):
        return _whole(policy, text, _total(policy, given.removesuffix("/s"), _SIZE_WORDS), SIZE_UNITS[policy.unit])
    raise _wrong(policy, text)


def _total(policy: Policy, text: str, units: Mapping[str, int]) -> Fraction:
    total, at = Fraction(0), 0
    while at < len(text) <= _LENGTH_MAX:
        part = _PART.match(text, at)
        if part is None or part[2] not in units:
            raise _wrong(policy, text)
        total += Fraction(part[1]) * units[part[2]]
        at = part.end()
    if not at:
        raise _wrong(policy, text)
    return total


def _whole(policy: Policy, text: str, total: Fraction, unit: int) -> int:
    value = total / unit
    if value.denominator != 1:
        raise InvalidValue(f"policy {policy.name} cannot be {text[:_LENGTH_MAX]!r}: it is a whole number of {policy.unit}")
    return int(value)


def _wrong(policy: Policy, text: str) -> InvalidValue:
    kind = "7d, 12h or 30min" if is_duration(policy) else "10 GiB or 500 MiB" if is_size(policy) else "a whole number"
    words = "".join(f" or {word}" for value, word in policy.words.items() if isinstance(value, int))
    return InvalidValue(f"policy {policy.name} cannot be {text[:_LENGTH_MAX]!r}: write it as {kind}{words}")
