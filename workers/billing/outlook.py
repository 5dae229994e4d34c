"""What a month would cost if something were otherwise, and what could be saved. Computed by the same functions as invoices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from messaging.errors import PreconditionFailed
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import costs, exact_sums, usage
from workers.billing.drafts import segments_between
from workers.billing.models import Charge
from workers.billing.usage import METER_NAMES
from workers.rating.rate import HOUR, Segment, rate

DAYS = 28  # of usage that a question is answered with, as if they were a month
SAVINGS_MAX = 100
STORED = "stored_byte_seconds"
WAITING = "messages wait for a subscription that takes none"
IDLE = "messages wait for this subscription, which takes none, while others are read"
NAMES_MAX = 20  # subscriptions of one saving
UNREAD = "messages come in that nobody reads"
STILL = "nothing comes in or goes out, and messages are stored"
KEPT = "retention keeps what all subscriptions have acknowledged"
KINDS = {WAITING: "waiting", IDLE: "idle_subscription", UNREAD: "unread", STILL: "still", KEPT: "retention"}


@dataclass(frozen=True)
class WhatIf:
    """Minor units for `DAYS` days: as they were, and as they would have been."""

    currency: str
    now: int
    then: int
    stored_now: int  # byte-seconds
    stored_then: int


@dataclass(frozen=True)
class Saving:
    """`nano`: what the topic, its idle subscription alone, or what retention keeps of it, cost in the last `DAYS` days. It rests
    on what was measured then; of retention, `kept_bytes` of the `stored_bytes` are those now, and the cost is in proportion."""

    topic: str
    why: str
    nano: int
    currency: str
    subscriptions: tuple[str, ...] = ()  # those that messages wait for
    messages_in: int = 0
    messages_out: int = 0
    stored_byte_seconds: int = 0
    kept_bytes: int = 0
    stored_bytes: int = 0

    @property
    def kind(self) -> str:
        return KINDS[self.why]

    @property
    def stored_mean(self) -> float:
        """Bytes; of what was there for a short time less than one."""
        return self.stored_byte_seconds / (DAYS * 86_400)

    @property
    def stored_mean_bytes(self) -> int:
        return int(self.stored_mean)


def currency_of_month(tenant_uid: str, today: date) -> str:
    """Of what the running month was charged; "" before anything was."""
    return max(costs.currencies_of(costs.Question([tenant_uid], today.replace(day=1), today)), default="")


def with_retention(tenant: Tenant, retention_s: int, namespace: str, now: datetime) -> WhatIf:
    """If messages were kept for `retention_s` after they came in, in one namespace or (empty) in all. In a steady state each byte
    is then stored for that long; what waits for its subscribers longer than that is not counted. Raises `PreconditionFailed`."""
    end = datetime(now.year, now.month, now.day, tzinfo=UTC)
    start = end - timedelta(days=DAYS)
    hour = now.replace(minute=0, second=0, microsecond=0)
    segments = segments_between(tenant.uid, hour, hour + HOUR)  # the plan in force now, which may be newer than midnight
    if not segments:
        raise PreconditionFailed("no price plan is in force for this tenant")
    whole = [Segment(start, end, segments[-1].version)]
    as_it_was: dict[str, dict[str, int]] = {meter: defaultdict(int) for meter in METER_NAMES}
    for day_start, day_end in usage.days_between(start, end):
        for used in usage.used_between(tenant.uid, day_start, day_end):
            for meter, quantity in zip(METER_NAMES, used.quantities, strict=True):
                as_it_was[meter][used.namespace] += quantity
    stored = dict(as_it_was[STORED])
    for name, came_in in as_it_was["bytes_in"].items():
        if namespace in ("", name):
            stored[name] = came_in * retention_s
    hours = (end - start) // HOUR
    amounts = [sum(line.amount for line in rate(whole, [used], hours)) for used in (as_it_was, {**as_it_was, STORED: stored})]
    return WhatIf(whole[0].version.currency, amounts[0], amounts[1], sum(as_it_was[STORED].values()), sum(stored.values()))


def savings(tenant_uid: str, now: datetime) -> list[Saving]:
    """Topics that cost something and that nobody read from in the last `DAYS` days, and subscriptions of other topics from which
    nobody did, the dearest first."""
    topics, parts, currency = _charged(tenant_uid, now)
    idle = [(topic, name) for (topic, name), used in parts.items() if _why(used.quantities) == WAITING]
    names: dict[str, list[str]] = defaultdict(list)
    for topic, name in sorted(idle):
        names[topic].append(name)
    possible = []
    for topic, used in topics.items():
        why = _why(used.quantities)
        if used.nano > 0 and why:
            possible.append(_saving(topic, why, used.nano, currency, used, tuple(names[topic][:NAMES_MAX])))
        elif used.nano > 0:
            possible += [_saving(topic, IDLE, parts[topic, name].nano, currency, used, (name,)) for name in names[topic]]
    return sorted(possible, key=_dearest)[:SAVINGS_MAX]


def storage_costs(tenant_uid: str, now: datetime, count: int) -> list[Saving]:
    """The topics that were read and whose storage cost most in the last `DAYS` days, `count` of them: what it cost."""
    topics, _, currency = _charged(tenant_uid, now)
    read = [(topic, used) for topic, used in topics.items() if used.stored_nano > 0 and not _why(used.quantities)]
    read.sort(key=lambda item: (-item[1].stored_nano, item[0]))
    return [_saving(topic, KEPT, used.stored_nano, currency, used, ()) for topic, used in read[:count]]


def together(savings: Sequence[Saving]) -> list[Saving]:
    return sorted(savings, key=_dearest)[:SAVINGS_MAX]


def _dearest(saving: Saving) -> tuple[int, str, tuple[str, ...]]:
    return -saving.nano, saving.topic, saving.subscriptions


def _saving(topic: str, why: str, nano: int, currency: str, used: _Used, names: tuple[str, ...]) -> Saving:
    counted = {name: used.quantities[name] for name in ("messages_in", "messages_out", STORED)}
    return Saving(topic, why, nano, currency, names, **counted)


def _charged(tenant_uid: str, now: datetime) -> tuple[dict[str, _Used], dict[tuple[str, str], _Used], str]:
    """By topic, and by topic and subscription; and in which currency."""
    since = now.date() - timedelta(days=DAYS)
    topics: dict[str, _Used] = defaultdict(_Used)
    parts: dict[tuple[str, str], _Used] = defaultdict(_Used)
    with platform_scope():
        charges = Charge.objects.filter(series__tenant_uid=tenant_uid, day__gte=since).exclude(series__topic="")
    currency = ""
    columns = ("series__topic", "series__subscription", "meter", "currency")
    for topic, subscription, meter, code, nano, *sums in (
        charges.order_by().values_list(*columns).annotate(exact_sums.ExactSum("nano"), **exact_sums.sums())
    ):
        for used in (topics[topic], *([parts[topic, subscription]] if subscription else ())):
            used.quantities[meter] += exact_sums.exact(*sums)
            used.nano += nano
            used.stored_nano += nano if meter == STORED else 0
        currency = code or currency
    return topics, parts, currency


@dataclass
class _Used:
    quantities: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    nano: int = 0
    stored_nano: int = 0


def _why(used: dict[str, int]) -> str:
    if used["messages_out"]:
        return ""
    if used["backlog_entry_seconds"]:
        return WAITING
    if used["messages_in"]:
        return UNREAD
    return STILL if used[STORED] else ""
