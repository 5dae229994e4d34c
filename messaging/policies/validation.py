"""Whether values may be stored: each by its own type, then the rules between them. What is not enforced is refused.

Policies of a namespace, topic or subscription are kept as one flat JSON object, name -> value, of what is set; what is not in it
inherits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from messaging.errors import InvalidPersistence, InvalidRetention, InvalidValue, PolicyNotEnforced, PreconditionFailed
from messaging.json_types import converted
from messaging.limits.model import check
from messaging.limits.rest import PROPERTIES
from messaging.payloads.masks import parse_masks
from messaging.policies.model import Level, Policy, range_text
from messaging.policies.registry import POLICIES

JsonPolicies = dict[str, Any]
NOTHING: Mapping[str, Any] = {}


def changed(
    current: Mapping[str, Any],
    changes: Mapping[str, Any],
    level: Level = Level.NAMESPACE,
    inherited: Mapping[str, Any] = NOTHING,
) -> JsonPolicies:
    """`current`, what is set at `level`, with `changes` applied. A value of None removes a policy, whether it is known and enforced
    or not. `inherited` are values of further levels that must not contradict the new ones.

    Raises `InvalidValue` naming what is unknown or wrong, `PolicyNotEnforced`, and `PreconditionFailed` where values contradict
    each other, or for a policy that cannot be set at this level."""
    result = dict(current)
    for name, value in changes.items():
        if value is None and (name in current or name in POLICIES):
            result.pop(name, None)
        else:
            result[name] = valid_value(_settable(name, level), value)
    given = {name for name, value in changes.items() if value is not None}
    for names, rule in _RULES:
        if not given.isdisjoint(names):  # a contradiction that is stored stands in the way of nothing else
            rule({**inherited, **result})
    return result


def _settable(name: str, level: Level) -> Policy:
    policy = POLICIES.get(name)
    if policy is None:
        raise InvalidValue(f"policy {name[:80]!r} is unknown: docs/policies.md lists all policies")
    if not policy.enforced:
        raise PolicyNotEnforced(
            f"policy {name} ({policy.path}) is not enforced by this release, so it cannot be set: leave it out; "
            "docs/policies.md lists those that can"
        )
    if level not in policy.levels:
        raise PreconditionFailed(
            f"policy {name} cannot be set on a {level}: set it on a {' or '.join(policy.levels)}; docs/policies.md lists the levels"
        )
    return policy


def valid_value(policy: Policy, value: Any) -> Any:
    """Raises `InvalidValue` with the value and the range."""
    try:
        return converted(value, policy.kind)
    except msgspec.ValidationError as error:
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:80] + "..."
        raise InvalidValue(f"policy {policy.name} cannot be {shown}: {error}. Valid values: {range_text(policy)}") from None


class StoredPolicies(NamedTuple):
    """`unenforced`: an earlier release stored them, and this one does not enforce them."""

    enforced: JsonPolicies
    unenforced: JsonPolicies


def split(stored: Mapping[str, Any]) -> StoredPolicies:
    enforced: JsonPolicies = {}
    idle: JsonPolicies = {}
    for name, value in stored.items():
        (enforced if name in POLICIES and POLICIES[name].enforced else idle)[name] = value
    return StoredPolicies(enforced, idle)


# --- rules between policies; each raises what Pulsar answers: mostly `PreconditionFailed` ----------------------------------------


def _properties_fit(policies: JsonPolicies) -> None:
    properties = policies.get("properties")
    if not properties:
        return
    if any("\x00" in text for pair in properties.items() for text in pair):
        raise PreconditionFailed("a property contains a NUL character, which cannot be stored: remove it")
    check("properties", properties, PROPERTIES)


def _masks_are_understood(policies: JsonPolicies) -> None:
    parse_masks(policies.get("masked_fields") or ())


def _retention_keeps_something(policies: JsonPolicies) -> None:
    time_min, size_mb = policies.get("retention_time_min"), policies.get("retention_size_mb")
    if time_min is not None and size_mb is not None and (time_min == 0) != (size_mb == 0):
        raise InvalidRetention(
            f"retention of {time_min} min and {size_mb} MB is contradictory: set both to 0 for no retention, or one of them to -1 "
            f"for unlimited"
        )


def check_retention(policies: JsonPolicies) -> None:
    """Raises `PreconditionFailed` for more than the ceiling of the tenant."""
    for name, ceiling in zip(_RETENTION, RETENTION_CEILINGS, strict=True):
        value, limit = policies.get(name, 0), policies.get(ceiling, 0)
        if limit and not 0 <= value <= limit:
            raise PreconditionFailed(
                f"policy {name} cannot be {value}: {ceiling} of the tenant is {limit}; set at most that, or have an administrator "
                "of the platform raise it"
            )


def _quota_is_below_retention(policies: JsonPolicies) -> None:
    for quota_name, retention_name, scale, unit in (
        ("backlog_quota_bytes", "retention_size_mb", 1 << 20, "bytes"),
        ("backlog_quota_age_s", "retention_time_min", 60, "s"),
    ):
        if not POLICIES[quota_name].enforced:
            continue
        quota, kept = policies.get(quota_name, -1), policies.get(retention_name, 0) * scale
        if quota >= 0 and kept > 0 and quota >= kept:
            raise PreconditionFailed(f"a backlog quota of {quota} {unit} must be below the retention of {kept} {unit}: lower it")


COPIES_MAX = 1  # of an entry: brokers keep it in one log of their own


def check_copies(policies: JsonPolicies) -> None:
    """Raises `InvalidPersistence` for numbers that contradict each other, `PreconditionFailed` for more copies than there are."""
    numbers = [policies.get(name, COPIES_MAX) for name in _QUORUMS]
    if numbers != sorted(numbers, reverse=True):
        asked = "/".join(map(str, numbers))
        raise InvalidPersistence(f"persistence {asked} is contradictory: it must be ensemble >= write quorum >= ack quorum")
    for name in _QUORUMS:
        asked = policies.get(name, COPIES_MAX)
        if asked > COPIES_MAX:
            raise PreconditionFailed(
                f"policy {name} cannot be {asked}: this platform keeps {COPIES_MAX} copy of each entry, in the broker's own log; "
                f"set ensemble, write quorum and ack quorum to {COPIES_MAX}"
            )


_QUORUMS = ("persistence_ensemble", "persistence_write_quorum", "persistence_ack_quorum")
_RETENTION = ("retention_time_min", "retention_size_mb")
RETENTION_CEILINGS = ("max_retention_time_min", "max_retention_size_mb")
_RULES: tuple[tuple[tuple[str, ...], Callable[[JsonPolicies], None]], ...] = (
    (("properties",), _properties_fit),
    (("masked_fields",), _masks_are_understood),
    (_RETENTION, _retention_keeps_something),
    (_RETENTION, check_retention),
    ((*_RETENTION, "backlog_quota_bytes", "backlog_quota_age_s"), _quota_is_below_retention),
    (_QUORUMS, check_copies),
)
