"""Effective policies in words: the value in force, and where it came from. First light: namespace, then the broker's default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings as django_settings

from admin_ui.figures import span
from messaging.settings import Settings


@dataclass(frozen=True)
class Effective:
    """`text`: the value with its unit. `is_set`: on this namespace itself. `source`: where else it came from."""

    label: str
    text: str
    is_set: bool
    source: str
    meaning: str


@dataclass(frozen=True)
class EffectivePolicies:
    ttl: Effective
    retention: Effective
    retention_time: Effective
    retention_size: Effective


def effective(policies: dict[str, Any]) -> EffectivePolicies:
    """`policies` are those set on the namespace (`tenants.policies`)."""
    settings: Settings = django_settings.MAGNETAR
    ttl, ttl_set, ttl_source = _resolve(policies, "message_ttl_s", settings.message_ttl_s)
    time_min, time_set, time_source = _resolve(policies, "retention_time_min", settings.retention_time_min)
    size_mb, size_set, size_source = _resolve(policies, "retention_size_mb", settings.retention_size_mb)
    return EffectivePolicies(
        Effective(
            "Messages expire",
            ttl_text(ttl),
            ttl_set,
            ttl_source,
            "A message that nobody acknowledged by then is not delivered any more, on any subscription.",
        ),
        Effective("Read messages are kept", retention_text(time_min, size_mb), time_set or size_set, time_source, ""),
        Effective(
            "Kept after reading, time",
            _time_text(time_min),
            time_set,
            time_source,
            "How long messages stay that every subscription has acknowledged, so that they can be read again.",
        ),
        Effective(
            "Kept after reading, size",
            _size_text(size_mb),
            size_set,
            size_source,
            "How much of them stays for each topic. The stricter of the two limits holds.",
        ),
    )


def _resolve(policies: dict[str, Any], name: str, default: int) -> tuple[int, bool, str]:
    value = policies.get(name)
    return (default, False, f"default of the broker ({name})") if value is None else (value, True, "this namespace")


def ttl_text(seconds: int) -> str:
    return "never" if seconds == 0 else f"after {span(seconds)}"


def retention_text(time_min: int, size_mb: int) -> str:
    if time_min == 0 or size_mb == 0:
        return "not at all"
    if time_min < 0 and size_mb < 0:
        return "for ever"
    return " or ".join(
        text for text in (_time_text(time_min) if time_min > 0 else "", _size_text(size_mb) if size_mb > 0 else "") if text
    )


def _time_text(time_min: int) -> str:
    return "for ever" if time_min < 0 else "not at all" if time_min == 0 else f"for {span(60 * time_min)}"


def _size_text(size_mb: int) -> str:
    if size_mb < 0:
        return "without limit"
    return "nothing" if size_mb == 0 else f"up to {size_mb:,} MiB"
