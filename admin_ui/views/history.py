"""History of a tenant, a namespace, a topic and a subscription: charts of a span that is in the address, and a table of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.history.charts import OF_SUBSCRIPTION, OF_TOPICS, Chart, ChartKind, charts_of, written
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.views.topics import topic_name
from messaging.errors import InvalidName, InvalidValue
from messaging.history.points import DAY_MS
from messaging.protocol.names import parse_topic
from tenants.history.figures import HistoryFigures, figures_of
from tenants.history.reading import CELLS_MAX, STEPS_MS, Subject, read, subject_of
from tenants.history.spans import SPANS_MS, AskedSpan, aligned, asked_span

PENDING_MS = 150_000  # so long after its end a minute may still come
ROWS_MAX = 200
TICKS = 4
EARLIER_MS = {"day": DAY_MS, "week": 7 * DAY_MS}
COMPARED = {"": "nothing", "day": "the day before", "week": "the week before", "topic": "another topic"}
SPAN_TEXTS = {"1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days"}


@dataclass(frozen=True)
class Comparison:
    """`steps`: on the same grid as what they are compared with; none if `problem` says why not."""

    text: str = ""
    steps: Sequence[HistoryFigures] = ()
    problem: str = ""


@page
def tenant_history(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _show(request, subject_of(tenant), OF_TOPICS, crumbs(tenant), nav=navigation(request, "tenant", tenant))


@page
def namespace_history(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    subject = subject_of(tenant, f"{tenant}/{namespace}")
    nav = navigation(request, "namespace", tenant, namespace)
    return _show(request, subject, OF_TOPICS, crumbs(tenant), nav=nav, tabs="namespace")


@page
def topic_history(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    subject = subject_of(tenant, f"{tenant}/{namespace}", str(name))
    nav = navigation(request, "topic", tenant, namespace)
    above = crumbs(tenant, namespace)
    return _show(request, subject, OF_TOPICS, above, nav=nav, tabs="topic", local=topic, persistent=name.persistent)


@page
def subscription_history(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    subject = subject_of(tenant, f"{tenant}/{namespace}", str(name), subscription)
    of_topic = (topic, reverse("console:topic", args=[tenant, namespace, topic]))
    back = (subscription, reverse("console:subscription", args=[tenant, namespace, topic, subscription]))
    nav = navigation(request, "topic", tenant, namespace)
    above = crumbs(tenant, namespace, of_topic, back)
    return _show(request, subject, OF_SUBSCRIPTION, above, nav=nav, local=topic, subscription=subscription)


def _show(
    request: ConsoleRequest, subject: Subject, kinds: Sequence[ChartKind], above: list[tuple[str, str]], **context: Any
) -> HttpResponse:
    now_ms, problem = time.time_ns() // 1_000_000, ""
    try:
        span = asked_span(request.GET.dict(), now_ms)
    except InvalidValue as error:
        problem, span = sentence(error.message), asked_span({}, now_ms)
    as_table = "table" in request.GET
    if as_table:
        span = _coarser(span)
    steps = figures_of(read(subject, span.from_ms, span.until_ms, span.step_ms))
    comparison = _compared(request.GET, subject, span, now_ms)
    charts = [] if as_table else charts_of(kinds, steps, comparison.steps, span.step_ms, _pending(span, now_ms))
    known_s = sum(min(each.known_seconds, span.step_ms / 1000) for each in steps)
    return show(
        request,
        "pages/history.html",
        status=400 if problem else 200,
        crumbs=above,
        problem=problem,
        subject=subject,
        span=span,
        spans=[(name, text, span.name == name, _query(request.GET, span=name)) for name, text in SPAN_TEXTS.items()],
        now_ms=now_ms,
        step_s=span.step_ms // 1000,
        ticks=_ticks(span),
        tick_form="clock" if span.width_ms <= 2 * DAY_MS else "full",
        charts=charts,
        data=_data(span, charts),
        compare=request.GET.get("compare", ""),
        compared_with=[each for each in COMPARED.items() if each[0] != "topic" or subject.topic],
        other=request.GET.get("other", ""),
        comparison=comparison,
        totals=_totals(kinds, steps, comparison),
        known_part=known_s * 1000 / span.width_ms,
        known_percent=written(known_s * 1000 / span.width_ms, "percent"),
        nothing=not any(each.known for each in steps),
        as_table=as_table,
        heads=[kind.title if len(kind.measures) == 1 else f"{kind.title}: {measure.label}" for kind, measure in _measures(kinds)],
        rows=_rows(kinds, span, steps) if as_table else [],
        table_query=_query(request.GET, table="1"),
        chart_query=_query(request.GET, table=""),
        form_fields=[(name, value) for name, value in request.GET.items() if name in ("span", "from", "until")],
        of_many=not subject.topic,
        **{"tabs": "", "local": "", "subscription": "", **context},
    )


def _coarser(span: AskedSpan) -> AskedSpan:
    """With no more steps than a table has rows."""
    step_ms = next((step for step in STEPS_MS if step >= span.step_ms and span.width_ms / step <= ROWS_MAX), STEPS_MS[-1])
    return aligned(span.from_ms, span.until_ms, step_ms, span.name)


def _pending(span: AskedSpan, now_ms: int) -> int:
    """How many of the last steps are not over, or may still come."""
    return max(0, -(-(span.until_ms - (now_ms - PENDING_MS)) // span.step_ms))


def _compared(query: QueryDict, subject: Subject, span: AskedSpan, now_ms: int) -> Comparison:
    asked = query.get("compare", "")
    if asked in EARLIER_MS:
        by_ms = EARLIER_MS[asked]
        earlier = span.earlier(by_ms, now_ms)
        if earlier.step_ms > span.step_ms and span.width_ms // span.step_ms <= CELLS_MAX:
            steps = figures_of(read(subject, earlier.from_ms, earlier.until_ms, earlier.step_ms))
            offset_ms = span.from_ms - by_ms - earlier.from_ms
            return Comparison(COMPARED[asked], _spread(steps, span, earlier.step_ms, offset_ms))
        return Comparison(COMPARED[asked], figures_of(read(subject, span.from_ms - by_ms, span.until_ms - by_ms, span.step_ms)))
    if asked == "topic" and subject.topic and query.get("other"):
        try:
            local = str(query["other"]).strip()
            name = parse_topic(local if "://" in local else f"persistent://{subject.namespace}/{local}")
        except InvalidName as error:
            return Comparison(problem=sentence(error.message))
        if str(name.namespace) != subject.namespace:
            return Comparison(problem=f"Only topics of {subject.namespace} can be compared here.")
        about = subject._replace(topic=str(name))
        return Comparison(name.local, figures_of(read(about, span.from_ms, span.until_ms, span.step_ms)))
    return Comparison()


def _spread(steps: Sequence[HistoryFigures], span: AskedSpan, step_ms: int, offset_ms: int) -> list[HistoryFigures]:
    """Coarser steps on the grid of the span: each of its steps has the mean of the coarser one that it lies in."""
    count = span.width_ms // span.step_ms
    return [steps[min(len(steps) - 1, (offset_ms + index * span.step_ms) // step_ms)] for index in range(count)]


def _ticks(span: AskedSpan) -> list[int]:
    return [span.from_ms + span.width_ms * index // TICKS for index in range(TICKS + 1)]


def _query(query: QueryDict, **changes: str) -> str:
    """The query of the page with some changes. A span replaces its bounds; "" leaves out."""
    kept = {name: value for name, value in query.items() if name in ("span", "from", "until", "compare", "other", "table")}
    if "span" in changes:
        kept = {name: value for name, value in kept.items() if name not in ("from", "until")}
    return urlencode({name: value for name, value in {**kept, **changes}.items() if value})


def _data(span: AskedSpan, charts: Sequence[Chart]) -> dict[str, Any]:
    """What history-charts.js reads out."""
    shown = {
        chart.kind.name: {
            "form": chart.kind.form,
            "lines": [
                {"label": measure.label, "values": chart.values[measure.key], "other": chart.values.get(f"other {measure.key}")}
                for measure in chart.kind.measures
                if measure.key in chart.values
            ],
        }
        for chart in charts
    }
    return {"from": span.from_ms, "step": span.step_ms, "count": span.width_ms // span.step_ms, "charts": shown}


def _measures(kinds: Sequence[ChartKind]) -> list[tuple[ChartKind, Any]]:
    return [(kind, measure) for kind in kinds for measure in kind.measures]


def _rows(kinds: Sequence[ChartKind], span: AskedSpan, steps: Sequence[HistoryFigures]) -> list[dict[str, Any]]:
    return [
        {
            "begins_ms": span.from_ms + index * span.step_ms,
            "known": "all"
            if each.known_seconds * 1000 >= span.step_ms - 2_500
            else f"{each.known_seconds * 1000 / span.step_ms:.0%}"
            if each.known
            else "nothing",
            "values": [written(measure.value(each), kind.form) for kind, measure in _measures(kinds)],
        }
        for index, each in enumerate(steps)
    ]


def _totals(kinds: Sequence[ChartKind], steps: Sequence[HistoryFigures], comparison: Comparison) -> list[dict[str, str]]:
    """Sums and extremes of the span, beside those of what it is compared with."""
    rows: list[tuple[str, str, str, Any]] = [
        ("Messages in", "messages_in", "count", sum),
        ("Messages out", "messages_out", "count", sum),
        ("Bytes in", "bytes_in", "bytes", sum),
        ("Bytes out", "bytes_out", "bytes", sum),
        ("Highest backlog, in entries", "backlog_max", "count", max),
        ("Oldest entry that waited", "oldest_age_max_seconds", "span", max),
        ("Longest time to a receipt", "publish_ms_max", "ms", max),
        ("Expired entries", "expired_entries", "count", sum),
    ]
    of_subscription = all(measure.key != "rate_in" for kind in kinds for measure in kind.measures)
    left_out = {"messages_in", "bytes_in", "publish_ms_max"} if of_subscription else set()
    exact = {"messages_in", "messages_out", "expired_entries"}
    found = []
    for title, key, form, how in rows:
        if key in left_out:
            continue
        values = [_together(each, key, how) for each in (steps, comparison.steps)]
        texts = [f"{int(value):,}" if key in exact and value is not None else written(value, form) for value in values]
        found.append({"title": title, "value": texts[0], "other": texts[1] if comparison.steps else ""})
    return found


def _together(steps: Sequence[HistoryFigures], key: str, how: Any) -> float | None:
    values = [value for each in steps if (value := getattr(each, key)) is not None]
    return how(values) if values else None


assert SPAN_TEXTS.keys() == SPANS_MS.keys()
