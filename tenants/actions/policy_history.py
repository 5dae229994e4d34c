"""What was set on a tenant, a namespace, a topic or a subscription, by whom, and taking a change back: read from the audit log.

The history of something begins when it was created, and reaches back as far as the audit log does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from messaging.errors import Conflict, NotFound, PreconditionFailed
from messaging.policies.validation import JsonPolicies
from messaging.protocol.names import TopicName
from tenants.access import Actor
from tenants.actions.namespaces import existing, set_policies
from tenants.actions.tenants import existing_tenant, set_tenant_policies
from tenants.actions.topic_policies import AUDITED_SET as TOPIC_SET
from tenants.actions.topic_policies import set_topic_policies, topic_policies
from tenants.audit.reading import Filters, Page, read_page, records_of
from tenants.models import AuditRecord
from tenants.scoping import tenant_scope

PAGE = 100
BLAMED_PAGES = 10  # so many pages of the history are looked at for who set what
_REPLACED = re.compile(r"\d+ bytes, SHA-256 [0-9a-f]{64}")  # what the audit log has in place of a large value


@dataclass(frozen=True)
class PolicyPlace:
    """Where policies are set. `since`: when it was created. `present` reads what is set now, `change` sets some; None unsets."""

    tenant: str
    resource: str  # in the audit log
    action: str  # of the records of changes
    since: datetime
    present: Callable[[], JsonPolicies]
    change: Callable[[Actor, JsonPolicies], object]


class Blame(NamedTuple):
    """`record`: the change that gave the policy its value; None: the audit log does not have it any more."""

    name: str
    value: Any
    record: AuditRecord | None


def of_tenant(tenant: str) -> PolicyPlace:
    """Raises `NotFound`."""
    row = existing_tenant(tenant)
    return PolicyPlace(
        tenant,
        tenant,
        "tenant.set_policies",
        row.created_at,
        lambda: existing_tenant(tenant).policies,
        lambda actor, changes: set_tenant_policies(actor, tenant, changes),
    )


def of_namespace(name: str) -> PolicyPlace:
    """Raises `NotFound`."""
    row = existing(name)
    return PolicyPlace(
        row.tenant_id,
        name,
        "namespace.set_policies",
        row.created_at,
        lambda: existing(name).policies,
        lambda actor, changes: set_policies(actor, name, changes),
    )


def of_topic(topic: TopicName, subscription: str = "") -> PolicyPlace:
    """Raises `NotFound` for the namespace, `PreconditionFailed` for a partition, `TopicNotFound`, `NotReady`."""

    def present() -> JsonPolicies:
        row = topic_policies(topic)
        return dict(row.subscriptions.get(subscription, {})) if subscription else row.policies

    created_ms = topic_policies(topic).created_ms
    return PolicyPlace(
        topic.tenant,
        f"{topic}/{subscription}" if subscription else str(topic),
        TOPIC_SET,
        datetime.fromtimestamp(created_ms / 1000, UTC),
        present,
        lambda actor, changes: set_topic_policies(actor, topic, changes, subscription),
    )


def history(place: PolicyPlace, *, limit: int, after: str = "") -> Page:
    """Changes of what is set there, newest first. Raises `InvalidValue` for a wrong `after`."""
    filters = Filters(resource=place.resource, action=place.action, since=place.since)
    with tenant_scope(place.tenant):
        return read_page(records_of(place.tenant), filters, limit=limit, after=after)


def blame(place: PolicyPlace) -> list[Blame]:
    """Which change each policy has its value from."""
    present = place.present()
    found: dict[str, AuditRecord] = {}
    following: str | None = ""
    for _ in range(BLAMED_PAGES):
        if following is None or found.keys() >= present.keys():
            break
        page = history(place, limit=PAGE, after=following)
        for record in page.records:
            for name in _changed(record):
                found.setdefault(name, record)
        following = page.following
    return [Blame(name, value, found.get(name)) for name, value in sorted(present.items())]


def differences(record: AuditRecord) -> list[tuple[str, Any, Any]]:
    """Of a change, the policies that it changed: (name, value before, value after), None where it was not set."""
    before, after = _policies(record.before), _policies(record.after)
    return [(name, before.get(name), after.get(name)) for name in _changed(record)]


def undone(place: PolicyPlace, record_id: str) -> JsonPolicies:
    """What undoing the change of that record sets, None where it unsets. Raises `NotFound` for another record, `Conflict` if
    something of it was changed again since, `PreconditionFailed` for a value that was too large for the audit log."""
    record = _record(place, record_id)
    names = _changed(record)
    before, after = _policies(record.before), _policies(record.after)
    lost = [name for name in names if isinstance(before.get(name), str) and _REPLACED.fullmatch(before[name])]
    if lost:
        raise PreconditionFailed(f"the former value of {', '.join(lost)} was too large for the audit log: set it yourself")
    _check_unchanged(place, {name: after.get(name) for name in names})
    return {name: before.get(name) for name in names}


def undo(actor: Actor, place: PolicyPlace, record_id: str) -> JsonPolicies:
    """Sets what was set before that change, and nothing else. Returns what is set then. Raises what `undone` and a change raise."""
    changes = undone(place, record_id)
    after = _policies(_record(place, record_id).after)
    actor.conditions.append(partial(_check_unchanged, place, {name: after.get(name) for name in changes}))
    place.change(actor, changes)
    return place.present()


def set_unless_changed(actor: Actor, place: PolicyPlace, changes: JsonPolicies, before: Mapping[str, Any]) -> None:
    """Sets `changes`; None unsets. Raises `Conflict` if what is set of them is not what `before` has, where they were read, and
    what a change raises."""
    advice = "look at what is set now, and save again if you still want to"
    check = partial(_check_unchanged, place, {name: before.get(name) for name in changes}, advice)
    check()
    actor.conditions.append(check)
    place.change(actor, changes)


def _record(place: PolicyPlace, record_id: str) -> AuditRecord:
    record = None
    if record_id.isascii() and record_id.isdecimal() and len(record_id) < 19:
        with tenant_scope(place.tenant):
            rows = records_of(place.tenant).filter(resource=place.resource, action=place.action, at__gte=place.since)
            record = rows.filter(id=int(record_id)).first()
    if record is None:
        raise NotFound(f"record {record_id[:40]!r} is no change of policies of {place.resource}: its history lists them")
    return record


def _check_unchanged(place: PolicyPlace, values: Mapping[str, Any], advice: str = "undo that first, or set what you want") -> None:
    """Raises `Conflict` unless that is set now, None where nothing is."""
    present = place.present()
    changed = sorted(name for name, value in values.items() if not _same(present.get(name), value))
    if changed:
        raise Conflict(f"{', '.join(changed)} was changed again since: {advice}")


def _same(present: Any, recorded: Any) -> bool:
    return present == recorded or (isinstance(recorded, str) and _REPLACED.fullmatch(recorded) is not None)


def _changed(record: AuditRecord) -> list[str]:
    before, after = _policies(record.before), _policies(record.after)
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _policies(state: Any) -> JsonPolicies:
    policies = state.get("policies") if isinstance(state, dict) else None
    return policies if isinstance(policies, dict) else {}
