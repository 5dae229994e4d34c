"""Sums of charges: what a tenant's usage cost, by day or month and by what it is attributed to.

Costs are in 10^-9 of the currency and sum exactly: every sum of a month's charges is that of its invoice's lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from django.db.models import QuerySet

from tenants.models import MonthLabels, Tenant
from tenants.scoping import platform_scope
from workers.billing import exact_sums
from workers.billing.models import NANO, Charge, MonthCharge
from workers.rating.money import CURRENCIES
from workers.rating.units import METERS

LEVELS = {
    "tenant": "series__tenant",
    "namespace": "series__namespace",
    "topic": "series__topic",
    "meter": "meter",
    "subscription": "series__subscription",
    "key": "series__key",
}
PARTS = ("subscription", "key")
LABEL, TENANT_LABEL = "label:", "tenant-label:"  # label:team groups by the namespace's property `team`
FEES = "fees and other"  # what belongs to no namespace: fees, connections, API calls that name none
UNLABELLED = "no label"
NOBODY = "nobody in particular"  # subscription or key of what has none, such as storage and fees
REST = "everything else"
FEE_TITLES = {"base_fee": "Base fee", "minimum": "Up to the minimum", "adjustment": "Corrections"}
OURS = (FEES, UNLABELLED, NOBODY, REST)
_QUOTED = {f'"{name}"': name for name in OURS}  # a label or subscription that a tenant called like this
DAY, MONTH = "day", "month"


Uids = Collection[str] | QuerySet[Tenant, str]  # of tenants; as a query, which names none of thousands


@dataclass(frozen=True)
class Question:
    """`tenants`: uids. `first` and `last`: days, both included. Empty filters: everything."""

    tenants: Uids
    first: date
    last: date
    by: str = "namespace"
    step: str = DAY
    currency: str = ""
    namespace: str = ""
    topic: str = ""
    meter: str = ""
    subscription: str = ""
    key: str = ""


@dataclass
class Costs:
    """`cells`: (name, first day of the step) -> 10^-9 of the currency. `names`: those with most first."""

    currency: str
    steps: list[date]
    names: list[str] = field(default_factory=list)
    cells: dict[tuple[str, date], int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    quantities: dict[str, dict[str, int]] = field(default_factory=dict)  # name -> meter -> base units

    @property
    def total(self) -> int:
        return sum(self.totals.values())


def groups_by(by: str) -> bool:
    """Whether costs can be summed by it."""
    return by in LEVELS or any(by.startswith(prefix) and by != prefix for prefix in (LABEL, TENANT_LABEL))


def ask(question: Question, names_max: int = 12) -> Costs:
    """Two passes over the charges: the first finds the names with the highest costs, the second their course over time."""
    rows = _rows(question)
    labels = _labels(question)
    costs = Costs(question.currency, steps_of(question.first, question.last, question.step))
    totals: dict[str, int] = defaultdict(int)
    quantities: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for shown, _, meter, nano, quantity in _named(rows, question, labels, "meter"):
        totals[shown] += nano
        if quantity:
            quantities[shown][meter] += quantity
    ranked = sorted(totals, key=lambda name: (-totals[name], -sum(quantities[name].values()), name))
    costs.names = ranked[:names_max] + ([REST] if len(ranked) > names_max else [])
    costs.totals = {name: totals[name] for name in ranked[:names_max]}
    if len(ranked) > names_max:
        costs.totals[REST] = sum(totals[name] for name in ranked[names_max:])
    kept = set(ranked[:names_max])
    for name in ranked:
        into = costs.quantities.setdefault(name if name in kept else REST, defaultdict(int))
        for meter, quantity in quantities[name].items():
            into[meter] += quantity
    _over_time(rows, labels, kept, costs, question)
    return costs


def _over_time(rows: QuerySet[Any], labels: Labels | None, kept: set[str], costs: Costs, question: Question) -> None:
    cells: dict[tuple[str, date], int] = defaultdict(int)
    whole: dict[date, int] = defaultdict(int)
    for day, nano in rows.values_list("day").annotate(exact_sums.ExactSum("nano")):
        whole[step_of(day, question.step)] += nano
    wanted = rows if labels is not None or REST not in costs.names else rows.filter(**{f"{LEVELS[question.by]}__in": _raw(kept)})
    for shown, day, _, nano, _ in _named(wanted, question, labels, "day"):
        if shown in kept:
            cells[shown, step_of(day, question.step)] += nano
    if REST in costs.names:
        for step, nano in whole.items():
            cells[REST, step] = nano - sum(cells[name, step] for name in kept)
    costs.cells = dict(cells)


def cells_of(question: Question) -> Iterator[tuple[str, date, str, int, int]]:
    """(name, day, meter, cost, quantity), every one of them; a name may come more than once for a day and meter."""
    yield from _named(_rows(question), question, _labels(question), "day", "meter")


def _named(
    rows: QuerySet[Any], question: Question, labels: Labels | None, *columns: str
) -> Iterator[tuple[str, date, str, int, int]]:
    """(name, day, meter, cost, quantity), summed as far as `columns` tell apart; day and meter only mean something where they are
    among them. What is labelled comes by day in any case: a label may change with the month."""
    at = (LEVELS[question.by],) if labels is None else ("series__tenant_uid", "series__namespace")
    asked = [*at, *columns, *(("day",) if labels is not None and "day" not in columns else ())]
    for row in rows.values_list(*asked).annotate(exact_sums.ExactSum("nano"), **exact_sums.sums()).iterator():
        of = dict(zip(asked, row, strict=False))
        day, meter = of.get("day", question.first), of.get("meter", "")
        name = _shown(row[0], question.by) if labels is None else labels.value_of(row[0], row[1], day)
        yield name, day, meter, row[-4], exact_sums.exact(*row[-3:])


def _rows(question: Question) -> QuerySet[Any]:
    """Months as a whole are read from their sums."""
    monthly = question.step == MONTH and question.first.day == 1 and (question.last + timedelta(days=1)).day == 1
    table: Any = MonthCharge if monthly else Charge
    with platform_scope():
        rows = table.objects.filter(series__tenant_uid__in=question.tenants, day__gte=question.first, day__lte=question.last)
    if question.currency:
        rows = rows.filter(currency=question.currency)
    for field_name, value in (
        ("series__namespace", question.namespace),
        ("series__topic", question.topic),
        ("meter", question.meter),
        ("series__subscription", question.subscription),
        ("series__key", question.key),
    ):
        if value:
            rows = rows.filter(**{field_name: value})
    return rows.order_by()  # type: ignore[no-any-return]


def currencies_of(question: Question) -> list[str]:
    """Those of the charges in question; "" is what had no price."""
    with platform_scope():
        rows = MonthCharge.objects.filter(
            series__tenant_uid__in=question.tenants, day__gte=question.first.replace(day=1), day__lte=question.last
        )
        return sorted(set(rows.order_by().values_list("currency", flat=True).distinct()))


def totals_by_currency(question: Question) -> dict[str, int]:
    """The costs in question in every currency, whichever it asks for: sums of different ones are different sums. What had no price
    is left out."""
    rows = _rows(replace(question, currency="")).exclude(currency="").values_list("currency").annotate(exact_sums.ExactSum("nano"))
    return dict(sorted(rows))


def label_keys(tenants: Uids) -> list[str]:
    """What there is to sum by: `label:KEY` for the properties of the tenants' namespaces, also of those that were deleted, and
    `tenant-label:KEY` for the labels of the tenants."""
    with platform_scope():
        rows = MonthLabels.objects.filter(tenant_uid__in=tenants).order_by().values_list("namespace", "labels")
        return sorted({f"{LABEL if namespace else TENANT_LABEL}{key}" for namespace, labels in rows for key in labels})


def label_title(by: str) -> str:
    """ "label team" or "tenant label team"."""
    kind, _, key = by.partition(":")
    return f"{kind.replace('-', ' ')} {key}"


@dataclass(frozen=True)
class Labels:
    """The values of one label. `since`: (tenant's uid, namespace) -> (first day of the month, value) by month; "" for none."""

    of_tenant: bool
    since: Mapping[tuple[str, str], Sequence[tuple[date, str]]]

    def value_of(self, tenant_uid: str, namespace: str, day: date) -> str:
        """That of the day's month."""
        values = self.since.get((tenant_uid, "" if self.of_tenant else namespace), ())
        place = bisect_right(values, day, key=lambda value: value[0])
        return _apart(values[place - 1][1] if place else "") or UNLABELLED


def _labels(question: Question) -> Labels | None:
    """None where the question is not about a label."""
    of_tenant = question.by.startswith(TENANT_LABEL)
    if not of_tenant and not question.by.startswith(LABEL):
        return None
    key = question.by.removeprefix(TENANT_LABEL if of_tenant else LABEL)
    since: dict[tuple[str, str], list[tuple[date, str]]] = defaultdict(list)
    with platform_scope():
        rows = MonthLabels.objects.filter(tenant_uid__in=question.tenants, month__lte=question.last)
        rows = rows.filter(namespace="") if of_tenant else rows.exclude(namespace="")
        for tenant_uid, namespace, month, labels in rows.order_by("month").values_list(
            "tenant_uid", "namespace", "month", "labels"
        ):
            since[tenant_uid, namespace].append((month, labels.get(key, "")))
    return Labels(of_tenant, since)


def _shown(name: str, by: str) -> str:
    return _apart(name) or (NOBODY if by in PARTS else FEES)


def _apart(name: str) -> str:
    return f'"{name}"' if name in OURS else name


def _raw(names: Collection[str]) -> list[str]:
    return ["" if name in (FEES, NOBODY) else _QUOTED.get(name, name) for name in names]


def steps_of(first: date, last: date, step: str) -> list[date]:
    steps, at = [], step_of(first, step)
    while at <= last:
        steps.append(at)
        at = step_of(at + timedelta(days=32 if step == MONTH else 1), step)
    return steps


def step_of(day: date, step: str) -> date:
    return day.replace(day=1) if step == MONTH else day


def nano_text(nano: int, currency: str) -> str:
    """Cut to the digits of the currency, for reading."""
    digits = CURRENCIES.get(currency, 2)
    minor = abs(nano) // (NANO // int(10**digits))
    text = f"{minor // 10**digits:,}" + (f".{minor % 10**digits:0{digits}d}" if digits else "")
    return f"-{text}" if nano < 0 and minor else text


def meter_title(name: str) -> str:
    return METERS[name].title if name in METERS else FEE_TITLES.get(name, name)
