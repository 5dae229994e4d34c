"""The cost explorer's page from its address: which costs are asked for, and how they are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet

from admin_ui.translation.figures import of_language
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.models import Key, Tenant
from tenants.scoping import platform_scope
from workers.billing import charts, costs
from workers.billing.unit_texts import units_text
from workers.billing.usage_lines import DAYS_MAX
from workers.rating.money import decimal_text
from workers.rating.units import METERS, UNITS

FIRST_YEAR = 2000
DAILY_DAYS_MAX = 92  # longer spans are shown by month
SERIES_MAX = 8
OFFERED_MAX = 50  # tenants: with more of them one types a name
LEVELS = (
    ("namespace", gettext_lazy("By namespace")),
    ("topic", gettext_lazy("By topic")),
    ("meter", gettext_lazy("By meter")),
    ("subscription", gettext_lazy("By subscription")),
    ("key", gettext_lazy("By key")),
    ("tenant", gettext_lazy("By tenant")),
)
SHOWN_UNITS = {  # the first of which a quantity has one at least, else the last
    "messages": ("million messages", "message"),
    "bytes": ("GiB", "MiB", "byte"),
    "byte-seconds": ("GiB-month", "GiB-hour"),
    "entry-seconds": ("million entry-hours", "entry-hour"),
    "calls": ("call",),
    "connection-seconds": ("connection-hour",),
}
FILTERS = ("namespace", "topic", "meter", "subscription", "key")
SPANS = (
    ("this-month", gettext_lazy("This month")),
    ("last-month", gettext_lazy("Last month")),
    ("90-days", gettext_lazy("90 days")),
    ("year", gettext_lazy("12 months")),
)


@dataclass(frozen=True)
class Asked:
    """What the address asks for, put right where it is wrong. `span` names one of `SPANS`, or is "" for days of one's own.
    `unknown`: what was asked for as a tenant and is none; the question is about all then."""

    question: costs.Question
    tenant: str
    unknown: str
    span: str
    compare: bool


def asked_by(query: Mapping[str, str], tenants: QuerySet[Tenant], today: date) -> Asked:
    """`tenants`: those that the user may see; nothing else can be asked for."""
    wanted = query.get("tenant", "").strip()
    chosen = tenants.filter(name=wanted)
    tenant = chosen.values_list("name", flat=True).first() or ""
    uids = (chosen if tenant else tenants).values_list("uid", flat=True)
    span = query.get("span", "" if query.get("first") else "this-month")
    first, last = days_of(query, span, today)
    by = query.get("by", "namespace")
    if not costs.groups_by(by):
        by = "namespace"
    step = query.get("step", "")
    if step not in (costs.DAY, costs.MONTH) or (step == costs.DAY and (last - first).days >= DAILY_DAYS_MAX):
        step = costs.DAY if (last - first).days < DAILY_DAYS_MAX else costs.MONTH
    if step == costs.MONTH:
        first, last = first.replace(day=1), (last.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
    question = costs.Question(uids, first, last, by, step, "", *(query.get(name, "") for name in FILTERS))
    currencies = costs.currencies_of(question)
    currency = query.get("currency", "")
    question = replace(question, currency=currency if currency in currencies else max(currencies, default=""))
    span = span if span in dict(SPANS) else ""
    return Asked(question, tenant, "" if tenant else wanted, span, query.get("compare") == "on")


def choices(tenants: QuerySet[Tenant], unknown: str) -> tuple[list[str], bool]:
    """The names that the page offers, and whether these are all. Of many tenants only those that are called similarly to what was
    asked for."""
    names = list(tenants.order_by("name").values_list("name", flat=True)[: OFFERED_MAX + 1])
    if len(names) <= OFFERED_MAX:
        return names, True
    similar = tenants.filter(name__icontains=unknown) if unknown else tenants.none()
    return list(similar.order_by("name").values_list("name", flat=True)[:OFFERED_MAX]), False


def days_of(query: Mapping[str, str], span: str, today: date) -> tuple[date, date]:
    """First and last day of the span that an address asks for; this month, where it asks for none that there is."""
    month = today.replace(day=1)
    spans = {
        "this-month": (month, today),
        "last-month": ((month - timedelta(days=1)).replace(day=1), month - timedelta(days=1)),
        "90-days": (today - timedelta(days=89), today),
        "year": ((month - timedelta(days=335)).replace(day=1), today),
    }
    if span in spans:
        return spans[span]
    try:
        first, last = date.fromisoformat(query.get("first", "")), date.fromisoformat(query.get("last", ""))
    except ValueError:
        return spans["this-month"]
    last = min(last, today)
    if not timedelta(0) <= last - first < timedelta(days=DAYS_MAX) or first.year < FIRST_YEAR:
        return spans["this-month"]
    return first, last


def page_of(asked: Asked, query: Mapping[str, str]) -> dict[str, Any]:
    """The context of the page."""
    question = asked.question
    found = costs.ask(question, SERIES_MAX)
    before = costs.ask(_before(question), 10_000) if asked.compare else None
    keys = key_names(question, found.names)
    chart = charts.stacked(found.steps, found.names, found.cells, _titles(found, question, keys))
    return {
        "chart": chart,
        "chart_width": charts.WIDTH,
        "chart_height": charts.HEIGHT,
        "highest": _money(chart.highest, question.currency),
        "rows": _rows(found, before, question, query, keys),
        "total": _money(found.total, question.currency),
        "totals": [f"{_money(nano, code)} {code}" for code, nano in costs.totals_by_currency(question).items()],
        "before": None if before is None else _money(before.total, question.currency),
        "change": None if before is None else _change(found.total, before.total),
        "before_days": _before(question),
        "empty": not found.names,
    }


def _money(nano: int, currency: str) -> str:
    return of_language(costs.nano_text(nano, currency))


def _before(question: costs.Question) -> costs.Question:
    """The span of the same length that ends where this one begins."""
    length = question.last - question.first + timedelta(days=1)
    return replace(question, first=question.first - length, last=question.first - timedelta(days=1))


def _titles(found: costs.Costs, question: costs.Question, keys: Mapping[str, str]) -> dict[tuple[str, date], str]:
    return {
        (
            name,
            step,
        ): f"{shown_name(name, question.by, keys)}, {step}: {_money(nano, found.currency)} {found.currency}".strip()
        for (name, step), nano in found.cells.items()
    }


def _rows(
    found: costs.Costs, before: costs.Costs | None, question: costs.Question, query: Mapping[str, str], keys: Mapping[str, str]
) -> list[dict[str, Any]]:
    rows = []
    for index, name in enumerate(found.names, 1):
        nano = found.totals[name]
        row = {
            "series": index,
            "name": shown_name(name, question.by, keys),
            "cost": _money(nano, found.currency),
            "part": of_language(f"{100 * nano / found.total:.1f} %") if found.total else "",
            "quantities": quantities_text(found.quantities.get(name, {})),
            "further": _further(name, question, query),
        }
        if before is not None and name != costs.REST:
            row |= {
                "before": _money(before.totals.get(name, 0), found.currency),
                "change": _change(nano, before.totals.get(name, 0)),
            }
        rows.append(row)
    return rows


def shown_name(name: str, by: str, keys: Mapping[str, str]) -> str:
    """`keys`: of `key_names`."""
    if by == "key":
        return keys.get(name, name)
    if by == "meter" or name in costs.OURS:
        return said(costs.meter_title(name) if by == "meter" else name)
    return name.removeprefix("persistent://") if by == "topic" else name


def key_names(question: costs.Question, names: Collection[str]) -> dict[str, str]:
    """Id -> role and id, of keys that there still are. What came without a key goes by its role anyway."""
    if question.by != "key":
        return {}
    with platform_scope():
        roles = Key.objects.filter(id__in=names, tenant__uid__in=question.tenants).values_list("id", "role")
    return {key_id: f"{role} ({key_id[:8]})" for key_id, role in roles}


def quantities_text(quantities: Mapping[str, int]) -> list[tuple[str, str]]:
    """(meter, amount in a unit for people), in the order of the meters."""
    return [(said(METERS[meter].title), _amount_text(quantities[meter], meter)) for meter in METERS if quantities.get(meter)]


def _amount_text(quantity: int, meter: str) -> str:
    units = SHOWN_UNITS[METERS[meter].dimension]
    unit = next((unit for unit in units if quantity >= UNITS[unit].size), units[-1])
    amount = decimal_text(Fraction(quantity, UNITS[unit].size), 2)
    if amount == "0":
        return gettext("under {amount}").format(amount=units_text("0.01", unit))
    return units_text(amount, unit)


def _further(name: str, question: costs.Question, query: Mapping[str, str]) -> str:
    """The address one level down: from a namespace, subscription or key to its topics, from a topic to its meters. "" where there
    is none."""
    following = {"namespace": "topic", "topic": "meter", "tenant": "namespace", "subscription": "topic", "key": "topic"}.get(
        question.by
    )
    if following is None or name in (costs.REST, costs.FEES, costs.NOBODY):
        return ""
    kept = {key: value for key, value in query.items() if key != "by"}
    return "?" + urlencode({**kept, "by": following, question.by: name})


def _change(now: int, before: int) -> str:
    if not before:
        return gettext("new") if now else ""
    return of_language(f"{100 * (now - before) / before:+.1f} %")
