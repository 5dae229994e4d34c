"""What a change of policies would have done to the recorded traffic of a tenant, a namespace, a topic or a subscription.

Reads history and what is set, and asks no broker: it is answered while none is up. Bounded: so many topics, those of which
something was heard last, so many series, and so much time, of one question of a tenant at a time; what is left out is counted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from django.core.cache import cache
from msgspec import Meta

from messaging.bodies import one_of
from messaging.errors import QuotaExceeded
from messaging.history.cells import Cell
from messaging.history.points import DAY_MS, HOUR_MS, MINUTE_MS
from messaging.history.what_if import (
    REPLAYED,
    Bounds,
    Outcome,
    Scope,
    decided_by,
    is_relative,
    kept_bytes,
    known_ms,
    replayed_of,
    throttled_ms,
)
from messaging.policies.model import Level
from messaging.policies.resolution import Levels, resolve_policy
from messaging.policies.validation import JsonPolicies
from messaging.protocol.names import parse_topic
from messaging.times import time_text
from tenants.broker_settings import policy_defaults
from tenants.history.reading import HOURS_KEPT_MS, Subject, read, step_of
from tenants.history.spans import AskedSpan, aligned
from tenants.models import HistorySeries, Namespace, Tenant, TopicPolicies

ROWS_MAX = 2_000  # of series that are looked through
TOPICS_MAX = 50
SERIES_MAX = 100
FINDINGS_MAX = 200
LOOK_S_MAX = 5.0  # at series; then as long again at what retention would keep. The first one is always looked at
RETENTION = ("retention_time_min", "retention_size_mb")
_FOREVER_MS = HOURS_KEPT_MS - DAY_MS
ALONE_S = 60  # longer than any question takes
T = TypeVar("T")


class PolicyFinding(msgspec.Struct, kw_only=True):
    """What one limit would have done to one series. Times hold of what is known of the span, and if clients had done the same."""

    policy: str
    outcome: Annotated[str, one_of(tuple(Outcome)), Meta(description="What would have happened.")]
    namespace: Annotated[str, Meta(description="tenant/namespace; empty: the whole tenant.")]
    topic: Annotated[str, Meta(description="Full name, of a partition its own; empty: the whole namespace.")]
    subscription: str
    limit: Annotated[float, Meta(description="That would be in force: of the policy, a second or in seconds where it is a time.")]
    most_seen: Annotated[float | None, Meta(description="The highest of it in the span; null: nothing is known of it.")]
    at_least_seconds: Annotated[float, Meta(description="For so long it would have happened, whatever came when within a step.")]
    at_most_seconds: Annotated[float, Meta(description="And for no longer than this. 0: it would not have happened.")]
    throttled_seconds: Annotated[
        float, Meta(description="For so long a rate limit of then held something back: what would have come without it is unknown.")
    ]


class RetentionFinding(msgspec.Struct, kw_only=True):
    """How much retention would keep at most of what came in, in bytes. A span of less than its time: it is not kept any longer."""

    bytes_at_most: Annotated[
        int,
        Meta(description="Up to one ledger of each topic more is stored: ledgers are deleted as a whole, once they are closed."),
    ]
    seconds: Annotated[float, Meta(description="Of so long it is what came in: the time that it would be kept for.")]
    known_seconds: float
    forever: Annotated[bool, Meta(description="Retention would be unlimited: what came in before is kept, too.")]


class PolicyWhatIf(msgspec.Struct, kw_only=True):
    begins: str
    ends: str
    step_seconds: int
    known_seconds: Annotated[float, Meta(description="So much of the span is known of what the change is about.")]
    topics_looked_at: int
    topics_left_out: Annotated[
        int, Meta(description="Topics beyond the first 50, and series beyond the first 100 or 5 seconds of work.")
    ]
    findings: Annotated[list[PolicyFinding], Meta(description="At most 200; the longest first.")]
    retention: RetentionFinding | None
    unknown: Annotated[list[str], Meta(description="Policies of the change that history says nothing of.")]


class PolicyChangeAsked(NamedTuple):
    """What is changed, and where: the most local of the names that are not "". `changes`: None unsets."""

    tenant: Tenant
    namespace: str
    topic: str
    subscription: str
    changes: JsonPolicies

    @property
    def level(self) -> Level:
        if self.subscription:
            return Level.SUBSCRIPTION
        return Level.TOPIC if self.topic else Level.NAMESPACE if self.namespace else Level.TENANT


class _Place(NamedTuple):
    """One series, and what is set for it at each level."""

    subject: Subject
    levels: Levels


def what_if(changing: PolicyChangeAsked, span: AskedSpan, now_ms: int) -> PolicyWhatIf:
    """The caller has checked the permission and the values, and is in the scope of the tenant. Blocks on the database. Raises
    `QuotaExceeded` while another question of the tenant is being answered, by whichever web process."""
    with _alone(changing.tenant):
        return _what_if(changing, span, now_ms)


@contextmanager
def _alone(tenant: Tenant) -> Iterator[None]:
    """In the cache that web processes share, while it answers. What a process that died was answering counts for `ALONE_S`."""
    key, mine = f"what-if:{tenant.uid}", secrets.token_hex(8)
    if not cache.add(key, mine, ALONE_S):
        raise QuotaExceeded(f"tenant {tenant.name} has another change held against history just now: ask again when that is done")
    try:
        yield
    finally:
        if cache.get(key) == mine:
            cache.delete(key)


class _InTime:
    """Hands out what there is time for. `left_out`: how many of them there was none for."""

    def __init__(self) -> None:
        self.left_out = 0

    def of(self, items: Sequence[T]) -> Iterator[T]:
        ends_s = time.monotonic() + LOOK_S_MAX
        for number, item in enumerate(items):
            if number and time.monotonic() >= ends_s:
                self.left_out = max(self.left_out, len(items) - number)
                return
            yield item


def _what_if(changing: PolicyChangeAsked, span: AskedSpan, now_ms: int) -> PolicyWhatIf:
    names, others = replayed_of(changing.changes)
    retention = [name for name in others if name in RETENTION]
    unknown = [name for name in others if name not in RETENTION]
    places, looked_at, left_out = _places(changing, {REPLAYED[name].scope for name in names}, topics=bool(retention))
    findings: list[PolicyFinding] = []
    in_time = _InTime()
    for scope, each in in_time.of(places if names else []):
        changed = [name for name in names if REPLAYED[name].scope is scope]
        before, after = _values(changing, each.levels, changed)
        relative = [name for name in changed if is_relative(name, after)]
        unknown += [name for name in relative if name not in unknown]
        differing = [name for name in changed if name not in relative and _differs(name, before, after)]
        limits = {name: limit for name in differing if (limit := REPLAYED[name].limit(after)) is not None}
        if limits:
            cells = read(each.subject, span.from_ms, span.until_ms, span.step_ms)
            findings += [_finding(name, limit, each.subject, cells, after) for name, limit in limits.items()]
    findings.sort(key=lambda found: (-found.at_least_seconds, -found.at_most_seconds, found.topic, found.subscription))
    whole = Subject(changing.tenant.uid, changing.namespace, changing.topic, changing.subscription)
    of_topics = [each for scope, each in places if scope is Scope.TOPIC]
    kept = _retention(changing, of_topics, now_ms, in_time) if retention else None
    return PolicyWhatIf(
        begins=time_text(span.from_ms),
        ends=time_text(span.until_ms),
        step_seconds=span.step_ms // 1000,
        known_seconds=known_ms(read(whole, span.from_ms, span.until_ms, span.step_ms)) / 1000,
        topics_looked_at=looked_at,
        topics_left_out=left_out + in_time.left_out,
        findings=findings[:FINDINGS_MAX],
        retention=kept,
        unknown=unknown,
    )


def _differs(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return any(before[each] != after[each] for each in decided_by([name]))


def _finding(name: str, limit: float, subject: Subject, cells: Sequence[Cell], after: Mapping[str, Any]) -> PolicyFinding:
    replayed = REPLAYED[name]
    outcome = replayed.outcome(after)
    bounds: Bounds = replayed.bounds(cells, limit)
    unit = 1000 if replayed.of_time else 1
    is_rate = outcome in (Outcome.PUBLISHING_HELD, Outcome.DELIVERY_HELD)
    return PolicyFinding(
        policy=name,
        outcome=outcome,
        namespace=subject.namespace,
        topic=subject.topic,
        subscription=subject.subscription,
        limit=limit / unit,
        most_seen=None if bounds.most_seen is None else bounds.most_seen / unit,
        at_least_seconds=bounds.at_least_ms / 1000,
        at_most_seconds=bounds.at_most_ms / 1000,
        throttled_seconds=throttled_ms(cells) / 1000 if is_rate else 0,
    )


def _retention(changing: PolicyChangeAsked, places: Sequence[_Place], now_ms: int, in_time: _InTime) -> RetentionFinding | None:
    """None: it keeps nothing of what is acknowledged, or no topic has another than before."""
    kept = known = widest = 0
    forever = differs = False
    for each in in_time.of(places):
        before, after = _values(changing, each.levels, RETENTION)
        time_min, size_mb = (after[name] for name in RETENTION)
        if before == after or not time_min or not size_mb:
            continue
        differs = True
        forever |= time_min < 0
        width_ms = min(time_min * MINUTE_MS, _FOREVER_MS) if time_min > 0 else _FOREVER_MS
        over = aligned(now_ms - width_ms, now_ms, step_of(now_ms - width_ms, now_ms, now_ms))
        cells = read(each.subject, over.from_ms, over.until_ms, max(over.step_ms, HOUR_MS if width_ms > DAY_MS else MINUTE_MS))
        came = kept_bytes(cells)
        kept += came if size_mb < 0 else min(came, size_mb << 20)
        known, widest = max(known, known_ms(cells)), max(widest, width_ms)
    if not differs:
        return None
    return RetentionFinding(bytes_at_most=kept, seconds=widest / 1000, known_seconds=min(known, widest) / 1000, forever=forever)


def _values(changing: PolicyChangeAsked, levels: Levels, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is in force before and after the change."""
    defaults, level = policy_defaults(), changing.level
    changed = {name: value for name, value in {**(levels.get(level) or {}), **changing.changes}.items() if value is not None}
    wanted = decided_by(names)
    before = {name: resolve_policy(name, levels, defaults).value for name in wanted}
    return before, {name: resolve_policy(name, {**levels, level: changed}, defaults).value for name in wanted}


# --- which series there are


def _places(changing: PolicyChangeAsked, scopes: set[Scope], *, topics: bool) -> tuple[list[tuple[Scope, _Place]], int, int]:
    """The series to look at, of how many topics they are, and how many topics and series are left out."""
    tenant, uid = changing.tenant, changing.tenant.uid
    namespaces = dict(_namespaces(changing).values_list("name", "policies"))
    of_tenant: Levels = {Level.TENANT: tenant.policies}
    places: list[tuple[Scope, _Place]] = []
    if Scope.TENANT in scopes:
        places.append((Scope.TENANT, _Place(Subject(uid), of_tenant)))
    if Scope.NAMESPACE in scopes:
        for name, policies in sorted(namespaces.items()):
            places.append((Scope.NAMESPACE, _Place(Subject(uid, name), {Level.NAMESPACE: policies, **of_tenant})))
    left_out = max(0, len(places) - SERIES_MAX)
    places = places[:SERIES_MAX]
    if not topics and not scopes & {Scope.TOPIC, Scope.SUBSCRIPTION}:
        return places, 0, left_out
    rows, further = _rows(changing)
    looked_at = rows.keys() & _first(rows)
    set_on = {
        row.topic: row for row in TopicPolicies.objects.filter(topic__in={str(parse_topic(topic).base) for _, topic in looked_at})
    }
    for (namespace, topic), subscriptions in rows.items():
        if (namespace, topic) not in looked_at:
            continue
        row = set_on.get(str(parse_topic(topic).base))
        levels = {Level.TOPIC: row.policies if row else None, Level.NAMESPACE: namespaces.get(namespace), **of_tenant}
        if topics or Scope.TOPIC in scopes:
            places.append((Scope.TOPIC, _Place(Subject(uid, namespace, topic), levels)))
        if Scope.SUBSCRIPTION in scopes:
            for name in subscriptions:
                of_subscription = row.subscriptions.get(name) if row else None
                place = _Place(Subject(uid, namespace, topic, name), {Level.SUBSCRIPTION: of_subscription, **levels})
                places.append((Scope.SUBSCRIPTION, place))
    left_out += max(0, len(places) - SERIES_MAX) + further + len(rows) - len(looked_at)
    return places[:SERIES_MAX], len(looked_at), left_out


def _first(rows: Mapping[tuple[str, str], Sequence[str]]) -> set[tuple[str, str]]:
    return set(list(rows)[:TOPICS_MAX])


def _namespaces(changing: PolicyChangeAsked) -> Any:
    found = Namespace.objects.filter(tenant=changing.tenant)
    return found.filter(name=changing.namespace) if changing.namespace else found


def _rows(changing: PolicyChangeAsked) -> tuple[dict[tuple[str, str], list[str]], int]:
    """The topics, and partitions, of which there is history, with their subscriptions; how many series are not looked through."""
    series = HistorySeries.objects.filter(tenant_uid=changing.tenant.uid).exclude(topic="")
    if changing.namespace:
        series = series.filter(namespace=changing.namespace)
    if changing.topic:
        of_topic = series.filter(topic=changing.topic) | series.filter(topic__startswith=f"{changing.topic}-partition-")
        series = of_topic.filter(subscription__in=("", changing.subscription)) if changing.subscription else of_topic
    found = list(series.order_by("-last_ms", "topic").values_list("namespace", "topic", "subscription")[: ROWS_MAX + 1])
    further = series.count() - ROWS_MAX if len(found) > ROWS_MAX else 0
    rows: dict[tuple[str, str], list[str]] = {}
    for namespace, topic, subscription in found[:ROWS_MAX]:
        if changing.topic not in ("", topic, str(parse_topic(topic).base)):  # it only begins alike, or in other letters
            continue
        names = rows.setdefault((namespace, topic), [])
        if subscription and subscription not in names:
            names.append(subscription)
    whole = {str(name.base) for _, topic in rows if (name := parse_topic(topic)).partition >= 0}
    return {key: names for key, names in rows.items() if key[1] not in whole}, further
